// Leases after they were given: growth, pause and end.
#include <algorithm>

#include "rollout/balancer_state.h"

namespace agentmath::rollout {

void Balancer::State::Unbind(const Lease& lease) {
  Engine& engine = engines[lease.engine];
  engine.Bind(-lease.weight, -lease.context_tokens);
  --(lease.is_paused ? engine.num_paused : engine.num_running);
}

void Balancer::State::Rebind(const Lease& lease) {
  Engine& engine = engines[lease.engine];
  engine.Bind(lease.weight, lease.context_tokens);
  ++(lease.is_paused ? engine.num_paused : engine.num_running);
}

Lease* Balancer::State::FindOpen(std::int64_t number) {
  Lease* lease = leases.Find(number);
  if (lease == nullptr) ++counts.num_late;
  return lease;
}

void Balancer::State::Close(Lease* lease, Ending ending) {
  Unbind(*lease);
  if (Session* session = sessions.Find(lease->session)) {
    if (lease->is_paused)
      session->paused = 0;
    else
      --session->num_running;
    // Of a cancelled request an earlier one's context is left, of a failed one perhaps nothing.
    if (session->engine == lease->engine && ending != Ending::kCancelled)
      session->context_tokens = ending == Ending::kFinished ? lease->context_tokens : 0;
    sessions.Settle(session);
  }
  leases.Close(lease);
}

void Balancer::State::ClosePaused(Session* session) {
  if (session->paused == 0) return;
  if (Lease* lease = leases.Find(session->paused)) Close(lease, Ending::kFinished);
}

void Balancer::State::Report(const Lease& lease, Ending ending) {
  Engine& engine = engines[lease.engine];
  const bool is_probe = engine.probe == leases.NumberOf(lease);
  if (ending == Ending::kFinished) engine.Succeeded(is_probe);
  if (ending == Ending::kFailed) engine.Failed(is_probe, settings, now);
  if (ending == Ending::kCancelled && is_probe) engine.ProbeWithdrawn(now);
}

bool Balancer::Progress(std::int64_t lease, std::int64_t num_tokens) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const std::int64_t weight = state_->Weight(num_tokens);
  Lease* open = state_->FindOpen(lease);
  if (open == nullptr) return false;
  Engine& engine = state_->engines[open->engine];
  engine.Bind(weight - open->weight, num_tokens - open->context_tokens);
  open->weight = weight;
  open->context_tokens = num_tokens;
  return true;
}

bool Balancer::Pause(std::int64_t lease, std::int64_t now) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  State& state = *state_;
  state.now = std::max(state.now, now);
  Lease* open = state.FindOpen(lease);
  if (open == nullptr) return false;
  if (open->is_paused) return true;
  state.Report(*open, Ending::kFinished);
  Session* session = state.sessions.Find(open->session);
  if (session == nullptr || session->has_ended) {
    state.Close(open, Ending::kFinished);
    return true;
  }
  state.ClosePaused(session);  // one is enough: of two concurrent requests, the later one's
  state.Unbind(*open);
  open->is_paused = true;
  state.Rebind(*open);
  --session->num_running;
  session->paused = lease;
  if (session->engine == open->engine) session->context_tokens = open->context_tokens;
  return true;
}

bool Balancer::Release(std::int64_t lease, Ending ending, std::int64_t now) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->now = std::max(state_->now, now);
  Lease* open = state_->FindOpen(lease);
  if (open == nullptr) return false;
  state_->Report(*open, ending);
  state_->Close(open, ending);
  return true;
}

bool Balancer::EndSession(std::int64_t id) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  Session* session = state_->sessions.Find(id);
  if (session == nullptr || session->has_ended) return false;
  session->has_ended = true;
  session->engine = kNoEngine;
  session->num_blocks = 0;
  if (session->paused != 0)
    state_->ClosePaused(session);  // settles it
  else
    state_->sessions.Settle(session);
  return true;
}

}  // namespace agentmath::rollout
