// Rounds of a simulation: what the scheduler decides, training and updates, and the sums.
#include <algorithm>
#include <cmath>

#include "rollout/simulator_bound.h"
#include "rollout/simulator_run.h"

namespace agentmath::rollout {

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

}  // namespace agentmath::rollout
