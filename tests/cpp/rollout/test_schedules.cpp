// Generated schedules of faults: engines that die, tools that never answer, reports that come
// twice, cancelled work, processes that are killed and go on from a checkpoint. Nothing may be lost
// and nothing trained on twice. AGENTMATH_SCHEDULES sets how many are run.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "check.h"
#include "rollout/scheduler.h"

using namespace agentmath::rollout;

namespace {

constexpr int kNumSteps = 5;

// One trajectory as the world knows it.
struct Known {
  Totals totals{10, 0};
  std::int64_t oldest_version = kNoVersion;
  std::int64_t num_calls = 0;
  bool has_ended = false;
};

// What a checkpoint holds besides the scheduler's own bytes.
struct World {
  std::map<Id, Known> known;
  std::set<GroupId> trained;
  GroupId next_group = 0;
  std::int64_t version = 0;
};

class Schedule {
 public:
  explicit Schedule(std::uint64_t seed) : random_(seed) {
    settings_.mode = static_cast<Mode>(Draw(4));
    settings_.groups_per_step = 1 + Draw(3);
    settings_.group_size = 1 + Draw(3);
    settings_.stages = {{20, 60, 3, 4}};
    settings_.segment_sampled_tokens = Draw(2) ? 6 : 0;
    settings_.segment_tool_calls = Draw(3) ? 0 : 1;
    settings_.over_submission = 1 + 0.5 * Draw(4);
    settings_.max_in_flight = Draw(2) ? 3 + Draw(8) : 0;
    settings_.max_lag = Draw(4) - (settings_.max_in_flight > 0);
    settings_.overdue = static_cast<Overdue>(Draw(3));
    settings_.kv_budget_tokens = Draw(2) ? 40 + Draw(60) : 0;
    settings_.max_running = Draw(3) ? 0 : 1 + Draw(4);
    settings_.max_retries = Draw(3);
    settings_.request_nanoseconds = Draw(3) ? 0 : 40;
    settings_.tool_nanoseconds = Draw(3) ? 0 : 20;
    settings_.log_capacity = 1000000;
    interrupts_ = settings_.mode != Mode::kAsync || Draw(2);
    restarts_ = Draw(2);
    scheduler_ = std::make_unique<Scheduler>(settings_);
    Save();
  }

  void Run() {
    while (world_.version < kNumSteps) {
      scheduler_->BeginRound(settings_.groups_per_step, now_);
      if (!FinishRound(/*is_faulty=*/true)) continue;  // killed: the round begins anew
      Train();
    }
    scheduler_->CloseIntake();
    while (scheduler_->GetStats().num_groups_in_flight + scheduler_->GetStats().num_groups_ready >
           0) {
      scheduler_->BeginRound(settings_.groups_per_step, now_);
      FinishRound(/*is_faulty=*/false);
      Train();
    }
    for (GroupId group = 0; group < world_.next_group; ++group) CHECK(world_.trained.count(group));
    for (const auto& item : world_.known) CHECK(item.second.has_ended);
    CHECK_EQUAL(scheduler_->GetStats().num_bound_tokens, 0);
    CHECK_EQUAL(scheduler_->GetStats().num_submitted, world_.known.size());
  }

 private:
  int Draw(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  // False when the process was killed.
  bool FinishRound(bool is_faulty) {
    for (int turns = 0;; ++turns) {
      CHECK(turns < 20000);  // else nothing moves any more
      now_ += Draw(5);
      const Decisions todo = scheduler_->Decide(now_, Draw(4));
      Follow(todo);
      CheckCounts();
      if (todo.round_is_over) break;
      if (is_faulty && Draw(12) == 0 && !Fault()) return false;
      if (!tickets_.empty()) Report(Pick());
    }
    if (interrupts_) {
      // What is interrupted reports once, or twice when it calls a tool first.
      std::size_t left = 2 * scheduler_->Interrupt(now_).size();
      for (; !tickets_.empty(); Report(Pick())) CHECK(left-- > 0);
      Follow(scheduler_->Decide(now_));
    }
    return true;
  }

  void Follow(const Decisions& todo) {
    for (const Ended& end : todo.ended) {
      End(end.id);
      Forget(end.id);
    }
    for (Id id : todo.interrupts) Forget(id, /*is_aborted=*/true);
    for (const Grant& grant : todo.grants) {
      CHECK(!world_.known.at(grant.id).has_ended);
      for (const auto& ticket : tickets_) CHECK(ticket.second != grant.id);
      Take(grant.id, grant.verdict);
    }
    for (std::int64_t i = 0; i < todo.num_groups_wanted; ++i) {
      const std::int64_t size = 1 + Draw(static_cast<int>(settings_.group_size));
      scheduler_->Submit(world_.next_group, 10, size, now_);
      for (std::int64_t k = 0; k < size; ++k) world_.known[IdOf(world_.next_group, k)];
      ++world_.next_group;
    }
  }

  Ticket Pick() {
    auto at = tickets_.begin();
    std::advance(at, Draw(static_cast<int>(tickets_.size())));
    return at->first;
  }

  void Take(Id id, const Verdict& verdict) {
    if (verdict.action == Action::kGenerate || verdict.action == Action::kCall) {
      CHECK(verdict.ticket != 0 && tickets_.count(verdict.ticket) == 0);
      tickets_[verdict.ticket] = id;
      granted_[verdict.ticket] = verdict;
    } else if (verdict.action == Action::kEnd) {
      End(id);
    }
  }

  void End(Id id) {
    CHECK(!world_.known.at(id).has_ended);
    world_.known.at(id).has_ended = true;
  }

  // The id's ticket is void: whatever is reported under it comes late. An aborted request that is
  // still valid is reported as such later.
  void Forget(Id id, bool is_aborted = false) {
    for (auto at = tickets_.begin(); at != tickets_.end(); ++at) {
      if (at->second != id) continue;
      if (is_aborted && scheduler_->Contains(id) && scheduler_->Look(id).ticket == at->first)
        return;
      late_.push_back(at->first);
      granted_.erase(at->first);
      tickets_.erase(at);
      return;
    }
  }

  void Report(Ticket ticket) {
    const Id id = tickets_.at(ticket);
    const Verdict granted = granted_.at(ticket);
    Known& known = world_.known.at(id);
    tickets_.erase(ticket);
    granted_.erase(ticket);
    late_.push_back(ticket);
    if (Draw(10) == 0) {
      const bool owes_call = granted.action == Action::kCall && Draw(2);
      return Hear(id, scheduler_->Lost(ticket, known.totals, owes_call, now_));
    }
    if (granted.action == Action::kCall) {
      known.totals.context_tokens += Draw(8);
      ++known.num_calls;
      return Hear(id, scheduler_->Answered(ticket, known.totals, now_));
    }
    Generation what;
    what.outcome = static_cast<Outcome>(Draw(5));
    what.sampled_tokens = what.outcome == Outcome::kLength
                              ? granted.max_new_tokens
                              : Draw(1 + static_cast<int>(granted.max_new_tokens));
    known.totals.sampled_tokens += what.sampled_tokens;
    known.totals.context_tokens += what.sampled_tokens;
    CHECK(known.totals.sampled_tokens <= settings_.stages[0].max_sampled_tokens);
    what.totals = known.totals;
    if (what.sampled_tokens > 0) {
      what.oldest_version = what.newest_version = world_.version;
      if (known.oldest_version == kNoVersion) known.oldest_version = world_.version;
    }
    Hear(id, scheduler_->Generated(ticket, what, now_));
  }

  void Hear(Id id, const Verdict& verdict) {
    // What is past its deadline is given up by Decide, at which its ticket was forgotten.
    CHECK(verdict.action != Action::kIgnore);
    Take(id, verdict);
    const View view = scheduler_->Look(id);
    CHECK_EQUAL(view.totals.context_tokens, world_.known.at(id).totals.context_tokens);
    CHECK_EQUAL(view.num_tool_calls, world_.known.at(id).num_calls);
    CHECK_EQUAL(view.oldest_version, world_.known.at(id).oldest_version);
    CHECK_EQUAL(IsEnd(view.state), world_.known.at(id).has_ended);
  }

  // False when the process was killed.
  bool Fault() {
    const int kind = Draw(restarts_ ? 5 : 3);
    if (kind == 0 && !late_.empty()) {
      const Ticket ticket = late_[static_cast<std::size_t>(Draw(static_cast<int>(late_.size())))];
      const std::string before = scheduler_->Snapshot();
      const Stats stats = scheduler_->GetStats();
      CHECK(scheduler_->Generated(ticket, {}, now_).action == Action::kIgnore);
      CHECK_EQUAL(scheduler_->GetStats().num_late_reports, stats.num_late_reports + 1);
      CHECK_EQUAL(scheduler_->Snapshot().size(), before.size());
    } else if (kind == 1 && !world_.known.empty()) {
      auto at = world_.known.begin();
      std::advance(at, Draw(static_cast<int>(world_.known.size())));
      const bool had_ended = at->second.has_ended;
      CHECK_EQUAL(scheduler_->Cancel(at->first, now_), !had_ended);
      Follow(scheduler_->Decide(now_));
    } else if (kind == 2) {
      scheduler_->SetKvBudget(settings_.kv_budget_tokens ? 30 + Draw(80) : 0);
    } else if (kind == 3) {
      Restart(scheduler_->Snapshot());  // moved to another process, with all that was reported
      scheduler_->BeginRound(settings_.groups_per_step, now_);
    } else if (kind == 4) {
      world_ = saved_world_;  // killed: what came after the checkpoint is gone
      Restart(saved_bytes_);
      return false;
    }
    return true;
  }

  void Restart(const std::string& bytes) {
    scheduler_ = std::make_unique<Scheduler>(settings_);
    scheduler_->Restore(bytes);
    tickets_.clear();
    granted_.clear();
    late_.clear();
    Follow(scheduler_->Decide(now_));
  }

  void Train() {
    const bool ends_by_count = settings_.mode == Mode::kQuota || settings_.mode == Mode::kAsync;
    for (const Released& one : scheduler_->TakeGroups()) {
      CHECK(world_.trained.insert(one.group).second);
      for (Id id = IdOf(one.group, 0); world_.known.count(id); ++id) {
        CHECK(world_.known.at(id).has_ended);
      }
      if (ends_by_count && settings_.max_lag >= 0 && one.oldest_version != kNoVersion) {
        CHECK(world_.version - one.oldest_version <= settings_.max_lag);
      }
    }
    scheduler_->SetVersion(++world_.version, now_);
    Save();
  }

  void Save() {
    saved_world_ = world_;
    saved_bytes_ = scheduler_->Snapshot();
  }

  // Counts are those of the trajectories, one by one.
  void CheckCounts() {
    const Stats stats = scheduler_->GetStats();
    std::array<std::int64_t, kNumStates> counted = {};
    std::int64_t bound = 0;
    for (const auto& [id, known] : world_.known) {
      if (!scheduler_->Contains(id)) continue;
      const View view = scheduler_->Look(id);
      ++counted[static_cast<std::size_t>(view.state)];
      if (IsActive(view.state)) bound += known.totals.context_tokens;
    }
    CHECK(counted == stats.num_in_state);
    CHECK_EQUAL(stats.num_bound_tokens, bound);
  }

  std::mt19937_64 random_;
  Settings settings_;
  bool interrupts_ = true;
  bool restarts_ = false;
  Time now_ = 0;
  std::unique_ptr<Scheduler> scheduler_;
  World world_, saved_world_;
  std::string saved_bytes_;
  std::map<Ticket, Id> tickets_;
  std::map<Ticket, Verdict> granted_;
  std::vector<Ticket> late_;
};

TEST(FaultsLoseNothingAndDoubleNothing) {
  const char* wanted = std::getenv("AGENTMATH_SCHEDULES");
  const int count = wanted ? std::atoi(wanted) : 1000;
  for (int seed = 0; seed < count; ++seed) {
    try {
      Schedule(static_cast<std::uint64_t>(seed)).Run();
    } catch (const std::exception& error) {
      throw std::runtime_error("schedule " + std::to_string(seed) + ": " + error.what());
    }
  }
}

}  // namespace
