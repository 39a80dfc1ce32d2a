#include "rollout/simulator.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "rollout/simulator_bound.h"
#include "rollout/simulator_run.h"

namespace agentmath::rollout {
namespace {

FleetSettings FleetOf(const SimulationSettings& s) {
  return {s.engine, s.balancer, s.num_engines, s.workload.prompt_tokens, s.balancer_knows_kv};
}

}  // namespace

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

SimulationResult Simulate(const SimulationSettings& settings) { return Simulation(settings).Run(); }

}  // namespace agentmath::rollout
