#include "rollout/simulator.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "rollout/scheduler.h"
#include "rollout/simulator_bound.h"
#include "rollout/simulator_fleet.h"

namespace agentmath::rollout {
namespace {

// A trajectory that has not ended.
struct Live {
  Id id = 0;
  TrajectoryPlan plan;
  std::size_t turn = 0;
  std::int64_t turn_tokens = 0;  // sampled of this turn
  Totals totals;

  // The request that is under way.
  Ticket ticket = 0;
  std::int64_t granted_tokens = 0;  // left of max_new_tokens
  std::int64_t request_tokens = 0;
  std::int64_t oldest_version = kNoVersion;
  std::int64_t newest_version = kNoVersion;
  bool is_aborted = false;

  // What it did in the present round.
  std::int64_t round = -1;
  double round_seconds = 0;

  std::int64_t TurnTokensLeft() const { return plan.turns[turn].tokens - turn_tokens; }
  bool IsLastTurn() const { return turn + 1 == plan.turns.size(); }
};

struct ToolEnd {
  std::int64_t ns;
  std::uint64_t sequence;
  Id id;
  Ticket ticket;
  bool operator>(const ToolEnd& other) const {
    return ns != other.ns ? ns > other.ns : sequence > other.sequence;
  }
};

// What the trainer does.
enum class Phase { kRollout, kStopping, kTraining, kUpdating };

class Simulation {
 public:
  explicit Simulation(const SimulationSettings& settings);
  SimulationResult Run();

 private:
  // ---- events ----
  void AdvanceEngines();
  void EndTools();
  void Settle();
  void ReleaseLockstep();

  // ---- trajectories ----
  void Follow(Live* live, const Verdict& verdict);
  void Generate(Live* live);
  void StartTool(Live* live);
  void Take(const PassReport& report);
  void EndPass(Live* live);
  void Answer(Id id, Ticket ticket);
  Live& At(Id id) { return live_.at(id); }
  void Count(Live* live, double seconds);
  void Forget(Id id);

  // ---- rounds ----
  void Decide();
  void SubmitGroup();
  void BeginRound();
  void EndRound();
  void Stop();
  void Abort(const std::vector<Id>& ids);
  void Train();
  void Update();
  void FinishUpdate();

  std::int64_t NextNs();
  bool IsOver() const {
    return static_cast<std::int64_t>(result_.rounds.size()) >= settings_.num_rounds;
  }
  void Summarise();

  SimulationSettings settings_;
  Workload workload_;
  Scheduler scheduler_;
  Fleet fleet_;
  std::int64_t now_ = 0;
  std::uint64_t sequence_ = 0;
  std::unordered_map<Id, Live> live_;
  std::unordered_map<GroupId, std::int64_t> group_tokens_;  // sampled, of groups not taken yet
  std::priority_queue<ToolEnd, std::vector<ToolEnd>, std::greater<ToolEnd>> tools_;
  std::vector<std::pair<Id, Ticket>> held_calls_, held_answers_;  // lockstep
  std::vector<PassReport> reports_;
  GroupId next_group_ = 1;
  Phase phase_ = Phase::kRollout;
  std::int64_t trainer_ns_ = kNever;  // when training or updating ends
  bool needs_decision_ = false;
  bool has_room_ = false;  // a lease was closed
  RoundResult round_;
  std::int64_t most_in_flight_ = 0;
  SimulationResult result_;
  // As they stood when the warm-up was over.
  std::int64_t measured_from_ns_ = 0;
  EngineCounts warmup_counts_;
  std::vector<double> warmup_busy_;
  double warmup_decode_ = 0, warmup_prefill_ = 0, warmup_update_ = 0;
};

FleetSettings FleetOf(const SimulationSettings& s) {
  return {s.engine, s.balancer, s.num_engines, s.workload.prompt_tokens, s.balancer_knows_kv};
}

Simulation::Simulation(const SimulationSettings& settings)
    : settings_(settings),
      workload_(settings.workload, settings.seed),
      scheduler_(settings.scheduler),
      fleet_(FleetOf(settings)),
      warmup_busy_(static_cast<std::size_t>(settings.num_engines), 0.0) {
  if (settings.num_rounds <= settings.num_warmup_rounds || settings.num_warmup_rounds < 0)
    throw Error("a simulation measures at least 1 round after the warm-up");
  if (settings.is_lockstep && settings.scheduler.mode != Mode::kBatch)
    throw Error("lockstep is a way to run batches");
}

SimulationResult Simulation::Run() {
  BeginRound();
  Settle();
  while (!IsOver()) {
    const std::int64_t next = NextNs();
    if (next == kNever)
      throw Error("the simulation has come to a stop at " + std::to_string(now_ / kSecond) +
                  " seconds: " + scheduler_.Dump(now_));
    if (settings_.stop != nullptr && *settings_.stop) throw Error("the simulation was stopped");
    now_ = next;
    AdvanceEngines();
    EndTools();
    if (trainer_ns_ == now_) {
      if (phase_ == Phase::kTraining)
        Update();
      else
        FinishUpdate();
    }
    Settle();
  }
  Summarise();
  return std::move(result_);
}

std::int64_t Simulation::NextNs() {
  std::int64_t next = std::min(fleet_.next_ns(), trainer_ns_);
  if (!tools_.empty()) next = std::min(next, tools_.top().ns);
  return next;
}

void Simulation::AdvanceEngines() {
  while (fleet_.next_ns() == now_) {
    ++result_.num_events;
    fleet_.Advance(now_, &reports_);
    for (const PassReport& report : reports_) Take(report);
    reports_.clear();
  }
}

void Simulation::EndTools() {
  while (!tools_.empty() && tools_.top().ns == now_) {
    const ToolEnd end = tools_.top();
    tools_.pop();
    ++result_.num_events;
    if (settings_.is_lockstep)
      held_answers_.push_back({end.id, end.ticket});
    else
      Answer(end.id, end.ticket);
  }
}

// After all that happened at this moment.
void Simulation::Settle() {
  do {
    if (settings_.is_lockstep) ReleaseLockstep();
    if (has_room_) {
      has_room_ = false;
      fleet_.PlaceWaiting(now_);
    }
    if (needs_decision_ && phase_ != Phase::kUpdating) Decide();
    if (phase_ == Phase::kStopping) Stop();
  } while (!IsOver() && (has_room_ || (needs_decision_ && phase_ != Phase::kUpdating)));
}

// Tools begin when the last turn has ended, turns when the last tool has.
void Simulation::ReleaseLockstep() {
  if (!tools_.empty() || !fleet_.is_idle()) return;
  std::vector<std::pair<Id, Ticket>> held;
  if (!held_calls_.empty()) {
    held.swap(held_calls_);
    for (const auto& [id, ticket] : held) {
      const std::int64_t ns = At(id).plan.turns[At(id).turn - 1].tool_ns;
      tools_.push({now_ + ns, sequence_++, id, ticket});
    }
  } else {
    held.swap(held_answers_);
    for (const auto& [id, ticket] : held) Answer(id, ticket);
  }
}

void Simulation::Follow(Live* live, const Verdict& verdict) {
  needs_decision_ |= verdict.needs_decision;
  const std::int64_t session = live->id;
  switch (verdict.action) {
    case Action::kGenerate:
      live->ticket = verdict.ticket;
      live->granted_tokens = verdict.max_new_tokens;
      live->request_tokens = 0;
      live->oldest_version = live->newest_version = kNoVersion;
      live->is_aborted = false;
      Generate(live);
      return;
    case Action::kCall:
      live->ticket = verdict.ticket;
      StartTool(live);
      return;
    case Action::kPark:
    case Action::kQueue:
      fleet_.Release(session, now_);
      has_room_ = true;
      return;
    case Action::kEnd:
      Forget(live->id);
      return;
    case Action::kIgnore:
      return;
  }
}

void Simulation::Forget(Id id) {
  fleet_.Release(id, now_);
  fleet_.EndSession(id);
  has_room_ = true;
  live_.erase(id);
}

void Simulation::Generate(Live* live) {
  if (live->TurnTokensLeft() == 0 && !live->IsLastTurn()) {  // a call that was not allowed
    ++live->turn;
    live->turn_tokens = 0;
  }
  std::int64_t tokens = std::min(live->granted_tokens, live->TurnTokensLeft());
  if (settings_.reroute_tokens > 0) tokens = std::min(tokens, settings_.reroute_tokens);
  fleet_.Place({live->id, GroupOf(live->id), live->totals.context_tokens, tokens}, now_);
}

void Simulation::StartTool(Live* live) {
  const TurnPlan& turn = live->plan.turns[live->turn++];
  live->turn_tokens = 0;
  if (settings_.is_lockstep)
    held_calls_.push_back({live->id, live->ticket});
  else
    tools_.push({now_ + turn.tool_ns, sequence_++, live->id, live->ticket});
}

void Simulation::Take(const PassReport& report) {
  if (live_.count(report.session) == 0) return;  // ended meanwhile: its tokens are lost
  Live& live = At(report.session);
  const Work work = Work::Of(report.tokens, live.totals.context_tokens);
  round_.sampled_tokens += work.tokens;
  round_.context_tokens += work.context_tokens;
  Count(&live, SoloSeconds(settings_.engine, work));
  live.totals.context_tokens += report.tokens;
  live.totals.sampled_tokens += report.tokens;
  live.turn_tokens += report.tokens;
  live.granted_tokens -= report.tokens;
  live.request_tokens += report.tokens;
  group_tokens_[GroupOf(live.id)] += report.tokens;
  if (report.tokens > 0) {
    if (live.oldest_version == kNoVersion) live.oldest_version = scheduler_.version();
    live.newest_version = scheduler_.version();
  }
  if (report.is_done)
    EndPass(&live);
  else
    fleet_.Progress(live.id, live.totals.context_tokens);
}

void Simulation::EndPass(Live* live) {
  const bool ends_turn = live->TurnTokensLeft() == 0;
  fleet_.Pause(live->id, now_);
  has_room_ = true;
  if (!ends_turn && live->granted_tokens > 0 && !live->is_aborted) {
    Generate(live);
    return;
  }
  Generation what;
  what.totals = live->totals;
  what.sampled_tokens = live->request_tokens;
  what.oldest_version = live->oldest_version;
  what.newest_version = live->newest_version;
  if (ends_turn)
    what.outcome = live->IsLastTurn() ? Outcome::kFinished : Outcome::kCall;
  else
    what.outcome = live->granted_tokens == 0 ? Outcome::kLength : Outcome::kAborted;
  Follow(live, scheduler_.Generated(live->ticket, what, now_));
}

void Simulation::Answer(Id id, Ticket ticket) {
  if (live_.count(id) == 0) return;  // cancelled meanwhile
  Live& live = At(id);
  Count(&live, static_cast<double>(live.plan.turns[live.turn - 1].tool_ns) / kSecond);
  live.totals.context_tokens += settings_.workload.tool_output_tokens;
  Follow(&live, scheduler_.Answered(ticket, live.totals, now_));
}

void Simulation::Count(Live* live, double seconds) {
  const std::int64_t round = static_cast<std::int64_t>(result_.rounds.size());
  if (live->round != round) live->round_seconds = 0;
  live->round = round;
  live->round_seconds += seconds;
  round_.longest_solo_seconds = std::max(round_.longest_solo_seconds, live->round_seconds);
}

void Simulation::Decide() {
  Decisions todo;
  do {
    needs_decision_ = false;
    todo = scheduler_.Decide(now_);
    for (std::int64_t i = 0; i < todo.num_groups_wanted; ++i) SubmitGroup();
    for (const Grant& grant : todo.grants) Follow(&At(grant.id), grant.verdict);
    Abort(todo.interrupts);
    for (const Ended& ended : todo.ended) Forget(ended.id);
  } while (todo.num_groups_wanted > 0 || todo.has_more_grants);
  most_in_flight_ = std::max(most_in_flight_, static_cast<std::int64_t>(live_.size()));
  if (phase_ == Phase::kRollout && todo.round_is_over) EndRound();
}

void Simulation::SubmitGroup() {
  const GroupId group = next_group_++;
  const WorkloadSettings& workload = settings_.workload;
  scheduler_.Submit(group, workload.prompt_tokens, workload.group_size, now_);
  for (std::int64_t sample = 0; sample < workload.group_size; ++sample) {
    const std::int64_t number = (group - 1) * workload.group_size + sample;
    Live live;
    live.id = IdOf(group, sample);
    live.plan = workload_.Plan(static_cast<std::uint64_t>(number));
    live.totals.context_tokens = workload.prompt_tokens;
    live_.emplace(live.id, std::move(live));
  }
}

void Simulation::BeginRound() {
  phase_ = Phase::kRollout;
  std::int64_t wanted = settings_.scheduler.groups_per_step;
  if (settings_.scheduler.mode == Mode::kSegments && settings_.segment_fill > 0) {
    const double size = static_cast<double>(settings_.workload.group_size);
    const double places = settings_.segment_fill * size * static_cast<double>(wanted);
    const double free = places - static_cast<double>(live_.size());
    const std::int64_t least = live_.empty() ? 1 : 0;
    wanted = scheduler_.GetStats().num_groups_in_flight +
             std::max(least, static_cast<std::int64_t>(std::floor(free / size)));
  }
  scheduler_.BeginRound(wanted, now_);
  needs_decision_ = true;
}

void Simulation::EndRound() {
  for (const Released& group : scheduler_.TakeGroups()) {
    round_.num_trained += group.num_done;
    round_.num_dropped += group.num_failed + group.num_cancelled;
    round_.trained_tokens += group_tokens_[group.group];
    if (group.oldest_version != kNoVersion)
      round_.max_lag = std::max(round_.max_lag, scheduler_.version() - group.oldest_version);
    group_tokens_.erase(group.group);
  }
  if (settings_.scheduler.mode == Mode::kAsync) {
    needs_decision_ = true;  // rollouts go on meanwhile
    Train();
    return;
  }
  phase_ = Phase::kStopping;
  Abort(scheduler_.Interrupt(now_));
}

// Weights change under no request, but a tool may work on.
void Simulation::Stop() {
  if (scheduler_.GetStats().num_in_state[static_cast<int>(State::kRunning)] > 0) return;
  if (settings_.scheduler.mode == Mode::kAsync)
    Update();
  else
    Train();
}

void Simulation::Abort(const std::vector<Id>& ids) {
  std::vector<PassReport> reports;
  for (const Id id : ids) {
    const auto found = live_.find(id);
    if (found == live_.end()) continue;
    found->second.is_aborted = true;
    fleet_.Abort(id, now_, &reports);
  }
  for (const PassReport& report : reports) Take(report);
}

void Simulation::Train() {
  phase_ = Phase::kTraining;
  trainer_ns_ = now_ + std::llround(settings_.train_seconds * 1e9);
  if (trainer_ns_ == now_) Update();
}

void Simulation::Update() {
  if (settings_.scheduler.mode == Mode::kAsync && settings_.interrupts_for_update &&
      phase_ != Phase::kStopping) {
    phase_ = Phase::kStopping;
    trainer_ns_ = kNever;
    needs_decision_ = true;
    Abort(scheduler_.Interrupt(now_));
    return;
  }
  phase_ = Phase::kUpdating;
  trainer_ns_ = now_ + std::llround(settings_.update_seconds * 1e9);
  std::vector<PassReport> reports;
  fleet_.PauseAll(now_, settings_.keeps_kv, &reports);
  for (const PassReport& report : reports) Take(report);
  if (trainer_ns_ == now_) FinishUpdate();
}

void Simulation::FinishUpdate() {
  trainer_ns_ = kNever;
  result_.update_seconds += settings_.update_seconds;
  const std::int64_t version = scheduler_.version() + 1;
  scheduler_.SetVersion(version, now_);
  fleet_.ResumeAll(now_, settings_.keeps_kv, version);
  round_.end_ns = now_;
  result_.rounds.push_back(round_);
  round_ = {};
  round_.begin_ns = now_;
  if (static_cast<std::int64_t>(result_.rounds.size()) == settings_.num_warmup_rounds) {
    measured_from_ns_ = now_;
    fleet_.RestartTimeline(now_);
    warmup_counts_ = fleet_.counts();
    warmup_busy_ = fleet_.busy_seconds();
    warmup_decode_ = fleet_.decode_seconds();
    warmup_prefill_ = fleet_.prefill_seconds();
    warmup_update_ = result_.update_seconds;
    most_in_flight_ = 0;
  }
  BeginRound();
}

void Simulation::Summarise() {
  SimulationResult& r = result_;
  Work work;
  double barrier_seconds = 0;
  const double engines = static_cast<double>(settings_.num_engines);
  const double batch = static_cast<double>(most_in_flight_) / engines;
  for (std::size_t i = static_cast<std::size_t>(settings_.num_warmup_rounds); i < r.rounds.size();
       ++i) {
    const RoundResult& round = r.rounds[i];
    r.num_trained += round.num_trained;
    r.num_dropped += round.num_dropped;
    r.trained_tokens += round.trained_tokens;
    r.max_lag = std::max(r.max_lag, round.max_lag);
    const Work of_round{round.sampled_tokens, round.context_tokens};
    work += of_round;
    barrier_seconds += std::max(round.longest_solo_seconds,
                                EngineSecondsAtLeast(settings_.engine, of_round, batch) / engines);
  }
  const bool has_barrier =
      settings_.scheduler.mode == Mode::kBatch || settings_.scheduler.mode == Mode::kSegments;
  r.bound_seconds =
      has_barrier ? barrier_seconds : EngineSecondsAtLeast(settings_.engine, work, batch) / engines;
  r.num_measured = settings_.num_rounds - settings_.num_warmup_rounds;
  r.seconds = static_cast<double>(now_ - measured_from_ns_) * 1e-9;
  r.sampled_tokens = work.tokens;
  r.most_in_flight = most_in_flight_;
  r.decode_seconds = fleet_.decode_seconds() - warmup_decode_;
  r.prefill_seconds = fleet_.prefill_seconds() - warmup_prefill_;
  r.update_seconds -= warmup_update_;
  r.counts = fleet_.counts() - warmup_counts_;
  r.num_moves = static_cast<std::int64_t>(fleet_.balancer().GetStats().num_moved);
  for (std::size_t i = 0; i < warmup_busy_.size(); ++i)
    r.idle_share.push_back(1 - (fleet_.busy_seconds()[i] - warmup_busy_[i]) / r.seconds);
  r.timeline = fleet_.timeline();
}

}  // namespace

SimulationResult Simulate(const SimulationSettings& settings) { return Simulation(settings).Run(); }

}  // namespace agentmath::rollout
