#include <cstdint>
#include <map>
#include <ostream>
#include <random>
#include <set>
#include <vector>

#include "check.h"
#include "core/error.h"
#include "rollout/scheduler.h"

using agentmath::Error;
using agentmath::rollout::Allowance;
using agentmath::rollout::Budgets;
using agentmath::rollout::History;
using agentmath::rollout::Key;
using agentmath::rollout::kNoVersion;
using agentmath::rollout::kSamplesPerGroup;
using agentmath::rollout::Mode;
using agentmath::rollout::Scheduler;
using agentmath::rollout::Settings;
using agentmath::rollout::State;

namespace agentmath::rollout {
// For the messages of CHECK_EQUAL.
std::ostream& operator<<(std::ostream& out, State state) { return out << static_cast<int>(state); }
}  // namespace agentmath::rollout

namespace {

Budgets Roomy() {
  Budgets budgets;
  budgets.sampled_tokens = 100;
  budgets.context_tokens = 1000;
  budgets.tool_calls = 2;
  return budgets;
}

Settings Of(Mode mode, std::int64_t per_step, std::int64_t in_flight = 0,
            std::int64_t max_lag = 2) {
  Settings settings;
  settings.mode = mode;
  settings.groups_per_step = per_step;
  settings.groups_in_flight = in_flight > 0 ? in_flight : per_step;
  settings.max_lag = max_lag;
  settings.max_rounds = 1;
  return settings;
}

Key KeyOf(std::int64_t group, std::int64_t sample) { return group * kSamplesPerGroup + sample; }

void SubmitWanted(Scheduler& scheduler, std::int64_t* next, std::int64_t samples = 2) {
  for (std::int64_t n = scheduler.NumWanted(); n > 0; --n)
    scheduler.Submit((*next)++, std::vector<History>(static_cast<std::size_t>(samples)));
}

}  // namespace

TEST(a_batch_step_ends_when_all_have_ended_and_gives_groups_in_order) {
  Scheduler scheduler(Of(Mode::kBatch, 2), Roomy());
  std::int64_t next = 5;
  scheduler.BeginStep(0);
  CHECK_EQUAL(scheduler.NumWanted(), 2);
  SubmitWanted(scheduler, &next);
  CHECK_EQUAL(scheduler.NumWanted(), 0);
  const std::vector<Key> admitted = scheduler.Admit();
  CHECK(admitted == (std::vector<Key>{KeyOf(5, 0), KeyOf(5, 1), KeyOf(6, 0), KeyOf(6, 1)}));
  for (std::size_t i = admitted.size(); i > 1; --i) {
    scheduler.End(admitted[i - 1], State::kDone);
    CHECK(!scheduler.IsRoundOver());
  }
  scheduler.End(admitted[0], State::kFailed);
  CHECK(scheduler.IsRoundOver());
  CHECK(scheduler.Release() == (std::vector<std::int64_t>{5, 6}));
  CHECK(scheduler.Release().empty());
  scheduler.Credit(2);
  CHECK(scheduler.IsStepOver());
}

TEST(dropped_groups_are_drawn_again_for_as_many_rounds_as_there_are) {
  Settings settings = Of(Mode::kBatch, 3);
  settings.max_rounds = 2;
  Scheduler scheduler(settings, Roomy());
  std::int64_t next = 0;
  scheduler.BeginStep(0);
  for (const std::int64_t drawn : {3, 2}) {
    CHECK_EQUAL(scheduler.NumWanted(), drawn);
    SubmitWanted(scheduler, &next, 1);
    for (const Key key : scheduler.Admit()) scheduler.End(key, State::kDone);
    scheduler.Release();
    scheduler.Credit(1);
    if (!scheduler.IsStepOver()) scheduler.BeginRound();
  }
  CHECK(scheduler.IsStepOver());
}

TEST(a_pass_is_bounded_by_tokens_and_calls_and_the_last_one_is_not) {
  Budgets budgets = Roomy();
  budgets.segments = 2;
  budgets.segment_tokens = 30;
  budgets.segment_calls = 1;
  Scheduler scheduler(Of(Mode::kSegments, 1), budgets);
  scheduler.BeginStep(0);
  scheduler.Submit(0, {History{}});
  const Key key = scheduler.Admit().at(0);
  CHECK_EQUAL(scheduler.Ask(key, 10).tokens, 30);
  CHECK(scheduler.Ask(key, 10).bound == Allowance::Bound::kSegment);
  scheduler.Sampled(key, 20, 0);
  CHECK_EQUAL(scheduler.Ask(key, 30).tokens, 10);
  scheduler.CallBegan(key);
  scheduler.CallEnded(key);
  CHECK_EQUAL(scheduler.Ask(key, 30).tokens, 0);
  scheduler.Park(key);
  CHECK(scheduler.IsRoundOver());
  CHECK_EQUAL(scheduler.num_unfinished_groups(), 1);

  scheduler.BeginStep(1);
  CHECK_EQUAL(scheduler.NumWanted(), 0);
  CHECK_EQUAL(scheduler.Admit().at(0), key);
  CHECK_EQUAL(scheduler.Ask(key, 30).tokens, 80);
  CHECK(scheduler.Ask(key, 30).bound == Allowance::Bound::kLength);
  CHECK_EQUAL(scheduler.Ask(key, 990).tokens, 10);
  CHECK_EQUAL(scheduler.Ask(key, 1000).tokens, 0);
  scheduler.End(key, State::kDone);
  CHECK_EQUAL(scheduler.HistoryOf(key).segments, 2);
  CHECK_EQUAL(scheduler.HistoryOf(key).oldest_version, 0);
}

TEST(a_quota_step_ends_early_refills_and_carries_the_rest_over) {
  Scheduler scheduler(Of(Mode::kQuota, 2, 3), Roomy());
  std::int64_t next = 0;
  scheduler.BeginStep(7);
  SubmitWanted(scheduler, &next, 1);
  CHECK_EQUAL(next, 3);
  std::vector<Key> running = scheduler.Admit();
  for (const Key key : running) scheduler.Sampled(key, 5, 7);
  scheduler.End(running[2], State::kDone);
  CHECK(!scheduler.IsRoundOver());
  // One may still be begun: in flight 3, less 2; drawable 2 + 1 - 3 = 0 of one round.
  CHECK_EQUAL(scheduler.NumWanted(), 0);
  scheduler.End(running[0], State::kDone);
  CHECK(scheduler.IsRoundOver());
  CHECK(scheduler.Release() == (std::vector<std::int64_t>{0, 2}));
  scheduler.Credit(2);
  CHECK(scheduler.IsStepOver());
  CHECK(scheduler.Interrupt() == (std::vector<Key>{running[1]}));
  CHECK_EQUAL(scheduler.Ask(running[1], 5).tokens, 0);
  scheduler.Park(running[1]);

  scheduler.BeginStep(8);
  CHECK_EQUAL(scheduler.NumWanted(), 2);
  SubmitWanted(scheduler, &next, 1);
  CHECK_EQUAL(scheduler.Admit().at(0), running[1]);
}

TEST(a_step_waits_for_groups_that_the_next_one_would_find_too_old) {
  Settings settings = Of(Mode::kQuota, 1, 2, 1);
  settings.max_rounds = 3;
  Scheduler scheduler(settings, Roomy());
  scheduler.BeginStep(0);
  scheduler.Submit(0, {History{}});
  scheduler.Submit(1, {History{}});
  const std::vector<Key> first = scheduler.Admit();
  scheduler.Sampled(first[0], 5, 0);
  scheduler.Sampled(first[1], 5, 0);
  scheduler.End(first[1], State::kDone);
  scheduler.Release();
  scheduler.Credit(1);
  CHECK(scheduler.IsStepOver());
  scheduler.Interrupt();
  scheduler.Park(first[0]);

  scheduler.BeginStep(1);
  CHECK(scheduler.IsFresh(0));
  scheduler.Submit(2, {History{}});
  const std::vector<Key> second = scheduler.Admit();
  CHECK_EQUAL(second[0], first[0]);
  scheduler.Sampled(second[1], 5, 1);
  scheduler.End(second[1], State::kDone);
  scheduler.Release();
  scheduler.Credit(1);
  CHECK(!scheduler.IsStepOver());
  CHECK_EQUAL(scheduler.Ask(first[0], 5).tokens, 95);
  scheduler.End(first[0], State::kDone);
  CHECK(scheduler.IsRoundOver());
  CHECK(scheduler.Release() == (std::vector<std::int64_t>{0}));
  scheduler.Credit(1);
  CHECK(scheduler.IsStepOver());
  scheduler.BeginStep(2);
  CHECK(!scheduler.IsFresh(0));
  CHECK(scheduler.IsFresh(1));
}

TEST(no_more_is_begun_than_can_be_consumed_in_time) {
  Settings settings = Of(Mode::kAsync, 2, 100, 1);
  settings.max_rounds = 100;
  Scheduler scheduler(settings, Roomy());
  scheduler.BeginStep(0);
  // This step's two groups and the next one's.
  CHECK_EQUAL(scheduler.NumWanted(), 4);
}

TEST(lag_0_makes_quota_and_async_a_batch) {
  for (const Mode mode : {Mode::kQuota, Mode::kAsync}) {
    Scheduler scheduler(Of(mode, 2, 8, 0), Roomy());
    std::int64_t next = 0;
    scheduler.BeginStep(0);
    SubmitWanted(scheduler, &next, 1);
    CHECK_EQUAL(next, 2);
    const std::vector<Key> running = scheduler.Admit();
    scheduler.End(running[0], State::kDone);
    CHECK(!scheduler.IsRoundOver());
  }
}

TEST(async_goes_on_over_a_change_of_weights_and_others_may_not) {
  Scheduler flowing(Of(Mode::kAsync, 1, 2), Roomy());
  flowing.BeginStep(0);
  flowing.Submit(0, {History{}});
  const Key key = flowing.Admit().at(0);
  flowing.Sampled(key, 3, 0);
  flowing.BeginStep(1);
  CHECK_EQUAL(flowing.StateOf(key), State::kRunning);
  flowing.Sampled(key, 3, 1);
  CHECK_EQUAL(flowing.HistoryOf(key).oldest_version, 0);
  Scheduler halting(Of(Mode::kQuota, 1, 2), Roomy());
  halting.BeginStep(0);
  halting.Submit(0, {History{}});
  halting.Admit();
  CHECK_THROWS(Error, (halting.BeginStep(1), 0));
  CHECK_THROWS(Error, (flowing.BeginStep(0), 0));
}

TEST(a_request_that_runs_over_a_change_of_weights_makes_its_group_old) {
  Scheduler scheduler(Of(Mode::kAsync, 1, 2, 1), Roomy());
  scheduler.BeginStep(0);
  scheduler.Submit(0, {History{}});
  scheduler.Ask(scheduler.Admit().at(0), 1);
  scheduler.Credit(1);
  CHECK(scheduler.IsStepOver());
  scheduler.BeginStep(1);
  scheduler.Credit(1);
  CHECK(!scheduler.IsStepOver());
  scheduler.Sampled(KeyOf(0, 0), 5, 0);
  CHECK(!scheduler.IsStepOver());
  scheduler.End(KeyOf(0, 0), State::kDone);
  CHECK(scheduler.IsStepOver());
}

TEST(admission_keeps_within_the_kv_budget_and_never_starves) {
  Settings settings = Of(Mode::kBatch, 3);
  settings.kv_tokens = 100;
  Scheduler scheduler(settings, Roomy());
  scheduler.BeginStep(0);
  History small, large;
  small.context_tokens = 40;
  large.context_tokens = 300;
  scheduler.Submit(0, {small, small});
  scheduler.Submit(1, {large});
  scheduler.Submit(2, {small});
  std::vector<Key> running = scheduler.Admit();
  CHECK_EQUAL(running.size(), 2u);
  scheduler.End(running[0], State::kDone);
  // The large one does not fit; nobody overtakes it.
  CHECK(scheduler.Admit().empty());
  scheduler.End(running[1], State::kDone);
  CHECK(scheduler.Admit() == (std::vector<Key>{KeyOf(1, 0)}));
  CHECK_EQUAL(scheduler.active_context_tokens(), 300);
  scheduler.End(KeyOf(1, 0), State::kDone);
  CHECK(scheduler.Admit() == (std::vector<Key>{KeyOf(2, 0)}));
}

TEST(late_and_repeated_news_change_nothing_and_false_ones_are_errors) {
  Scheduler scheduler(Of(Mode::kBatch, 1), Roomy());
  scheduler.BeginStep(0);
  scheduler.Submit(3, {History{}, History{}});
  CHECK_THROWS(Error, (scheduler.Submit(3, {History{}}), 0));
  CHECK_THROWS(Error, (scheduler.Submit(4, {}), 0));
  CHECK_THROWS(Error, scheduler.Ask(KeyOf(3, 0), 1));
  CHECK_THROWS(Error, scheduler.Ask(KeyOf(9, 0), 1));
  CHECK_THROWS(Error, scheduler.StateOf(-1));
  const std::vector<Key> running = scheduler.Admit();
  scheduler.CallBegan(running[0]);
  CHECK_THROWS(Error, (scheduler.CallBegan(running[0]), 0));
  CHECK_THROWS(Error, (scheduler.CallEnded(running[1]), 0));
  scheduler.End(running[0], State::kDone);
  scheduler.End(running[0], State::kFailed);
  CHECK_EQUAL(scheduler.StateOf(running[0]), State::kDone);
  CHECK(scheduler.Cancel(3));
  CHECK_EQUAL(scheduler.StateOf(running[1]), State::kCancelled);
  CHECK(!scheduler.Cancel(99));
  CHECK_EQUAL(scheduler.num_active(), 0);
  CHECK_EQUAL(scheduler.active_context_tokens(), 0);
  scheduler.Release();
  scheduler.End(running[0], State::kDone);
}

TEST(settings_that_cannot_work_are_refused) {
  Settings none = Of(Mode::kBatch, 0, 1), few = Of(Mode::kQuota, 4, 2), back = Of(Mode::kBatch, 1);
  back.max_lag = -1;
  for (const Settings& settings : {none, few, back})
    CHECK_THROWS(Error, Scheduler(settings, Roomy()));
  Budgets empty = Roomy();
  empty.sampled_tokens = 0;
  CHECK_THROWS(Error, Scheduler(Of(Mode::kBatch, 1), empty));
}

namespace {

// A caller that does everything right and everything at random: samples, calls, cancels, is killed
// and comes back with what it knew of its trajectories. Counts what became of every trajectory.
class Life {
 public:
  Life(std::uint64_t seed, Mode mode) : random_(seed), mode_(mode) { Restart(); }

  void Step() {
    scheduler_->BeginStep(version_);
    for (int event = 0; event < 400 && !scheduler_->IsStepOver(); ++event) {
      for (std::int64_t n = scheduler_->NumWanted(); n > 0; --n) Begin();
      for (const Key key : scheduler_->Admit()) running_.insert(key);
      if (scheduler_->IsRoundOver())
        Consume();
      else
        Something();
      Audit();
      if (random_() % 97 == 0) return Die();
    }
    if (mode_ != Mode::kAsync)
      for (const Key key : scheduler_->Interrupt()) Park(key);
    version_ += 1;
  }

  // Everything that was begun ended once or is still known.
  void AuditEnds() const {
    for (const auto& [key, ends] : ends_) CHECK(ends <= 1);
    for (const auto& [group, samples] : histories_)
      for (std::size_t i = 0; i < samples.size(); ++i)
        CHECK(ends_.count(KeyOf(group, static_cast<std::int64_t>(i))) == 0 ||
              !released_.count(group));
    CHECK(released_.size() + histories_.size() == static_cast<std::size_t>(next_));
  }

 private:
  void Begin() {
    histories_[next_] = std::vector<History>(1 + random_() % 3);
    scheduler_->Submit(next_, histories_[next_]);
    ++next_;
  }

  void Something() {
    if (running_.empty()) return;
    auto at = running_.begin();
    std::advance(at, static_cast<long>(random_() % running_.size()));
    const Key key = *at;
    const Allowance allowance = scheduler_->Ask(key, scheduler_->HistoryOf(key).context_tokens);
    if (random_() % 50 == 0) {
      scheduler_->Cancel(key / kSamplesPerGroup);
      for (auto it = running_.begin(); it != running_.end();)
        it = *it / kSamplesPerGroup == key / kSamplesPerGroup ? running_.erase(it) : std::next(it);
    } else if (allowance.tokens == 0 && allowance.bound == Allowance::Bound::kSegment) {
      Park(key);
    } else if (allowance.tokens == 0 || random_() % 3 == 0) {
      running_.erase(key);
      scheduler_->End(key, random_() % 10 == 0 ? State::kFailed : State::kDone);
    } else {
      const std::uint64_t most = static_cast<std::uint64_t>(allowance.tokens);
      scheduler_->Sampled(key, 1 + static_cast<std::int64_t>(random_() % most), version_);
      if (random_() % 2 == 0 && scheduler_->MayCall(key)) {
        scheduler_->CallBegan(key);
        scheduler_->CallEnded(key);
        scheduler_->Inserted(key, 4);
      }
    }
  }

  void Park(Key key) {
    running_.erase(key);
    scheduler_->Park(key);
    // What a checkpoint would hold.
    histories_[key / kSamplesPerGroup][static_cast<std::size_t>(key % kSamplesPerGroup)] =
        scheduler_->HistoryOf(key);
  }

  void Consume() {
    const std::vector<std::int64_t> released = scheduler_->Release();
    for (std::size_t i = 1; i < released.size(); ++i) CHECK(released[i - 1] < released[i]);
    std::int64_t kept = 0;
    for (const std::int64_t group : released) {
      CHECK(released_.insert(group).second);
      for (std::size_t i = 0; i < histories_.at(group).size(); ++i)
        ++ends_[KeyOf(group, static_cast<std::int64_t>(i))];
      histories_.erase(group);
      kept += random_() % 4 != 0;
    }
    scheduler_->Credit(kept);
    if (!scheduler_->IsStepOver() && scheduler_->num_active() == 0) scheduler_->BeginRound();
  }

  // Killed: what was not parked is as it was at its last pass.
  void Die() { Restart(); }

  void Restart() {
    running_.clear();
    Settings settings = Of(mode_, 3, 5, 1 + static_cast<std::int64_t>(random_() % 3));
    settings.max_rounds = 3;
    settings.kv_tokens = random_() % 2 == 0 ? 0 : 150;
    Budgets budgets = Roomy();
    budgets.segments = 3;
    budgets.segment_tokens = mode_ == Mode::kSegments ? 20 : 0;
    delete scheduler_;
    scheduler_ = new Scheduler(settings, budgets);
    for (const auto& [group, samples] : histories_) scheduler_->Submit(group, samples);
  }

  void Audit() const {
    std::int64_t context = 0;
    for (const Key key : running_) {
      CHECK_EQUAL(scheduler_->StateOf(key), State::kRunning);
      context += scheduler_->HistoryOf(key).context_tokens;
    }
    CHECK_EQUAL(scheduler_->num_active(), static_cast<std::int64_t>(running_.size()));
    CHECK_EQUAL(scheduler_->active_context_tokens(), context);
    CHECK(scheduler_->num_unfinished_groups() <= static_cast<std::int64_t>(histories_.size()));
  }

 public:
  ~Life() { delete scheduler_; }
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

 private:
  std::mt19937_64 random_;
  Mode mode_;
  Scheduler* scheduler_ = nullptr;
  std::int64_t version_ = 0, next_ = 0;
  std::set<Key> running_;
  std::map<std::int64_t, std::vector<History>> histories_;
  std::set<std::int64_t> released_;
  std::map<Key, int> ends_;
};

}  // namespace

TEST(through_random_lives_nothing_is_lost_and_nothing_ends_twice) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    for (const Mode mode : {Mode::kBatch, Mode::kSegments, Mode::kQuota, Mode::kAsync}) {
      Life life(seed, mode);
      for (int step = 0; step < 8; ++step) {
        life.Step();
        life.AuditEnds();
      }
    }
  }
}

TEST(equal_lives_are_equal) {
  const auto transitions = [] {
    Scheduler scheduler(Of(Mode::kQuota, 2, 4), Roomy());
    std::int64_t next = 0;
    scheduler.BeginStep(0);
    SubmitWanted(scheduler, &next);
    for (const Key key : scheduler.Admit()) scheduler.End(key, State::kDone);
    std::vector<std::int64_t> seen;
    for (const auto& t : scheduler.transitions())
      seen.push_back(t.key * 8 + static_cast<int>(t.to));
    return seen;
  };
  CHECK(transitions() == transitions());
}
