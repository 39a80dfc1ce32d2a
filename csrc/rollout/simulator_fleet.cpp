#include "rollout/simulator_fleet.h"

#include <string>

#include "core/error.h"

namespace agentmath::rollout {

Fleet::Fleet(const FleetSettings& settings)
    : settings_(settings), balancer_(settings.balancer), timeline_(settings.num_engines) {
  if (settings.num_engines < 1) throw Error("a simulation needs at least 1 engine");
  for (std::int64_t i = 0; i < settings.num_engines; ++i) {
    engines_.emplace_back(settings.engine, settings.prompt_tokens);
    EngineSpec spec;
    if (settings.balancer_knows_kv) spec.kv_tokens = settings.engine.kv_tokens;
    balancer_.AddEngine(spec);
  }
  scheduled_ns_.assign(engines_.size(), kNever);
  busy_seconds_.assign(engines_.size(), 0.0);
}

void Fleet::Place(const Ask& ask, std::int64_t now) {
  if (!TryPlace(ask, now)) waiting_.push_back(ask);
}

bool Fleet::PlaceWaiting(std::int64_t now) {
  bool placed = false;
  while (!waiting_.empty() && TryPlace(waiting_.front(), now)) {
    waiting_.pop_front();
    placed = true;
  }
  return placed;
}

bool Fleet::TryPlace(const Ask& ask, std::int64_t now) {
  Request request;
  request.session = ask.session;
  request.num_tokens = ask.context_tokens;
  request.group = ask.group;
  request.group_tokens = settings_.prompt_tokens;
  const Placement place = balancer_.Acquire(request, now);
  if (place.admission == Admission::kBusy) return false;
  if (place.admission != Admission::kPlaced)
    throw Error("a context of " + std::to_string(ask.context_tokens) + " tokens fits no engine");
  seats_[ask.session] = {place.lease, place.engine};
  engines_[place.engine].Submit(now, {ask.session, ask.group, ask.context_tokens, ask.tokens});
  Schedule(place.engine);
  return true;
}

void Fleet::Schedule(int engine) {
  const std::int64_t ns = engines_[engine].next_ns();
  if (ns == scheduled_ns_[engine]) return;
  scheduled_ns_[engine] = ns;
  if (ns != kNever) due_.push({ns, sequence_++, engine});
}

std::int64_t Fleet::next_ns() {
  while (!due_.empty() && due_.top().ns != scheduled_ns_[due_.top().engine]) due_.pop();
  return due_.empty() ? kNever : due_.top().ns;
}

void Fleet::Advance(std::int64_t now, std::vector<PassReport>* reports) {
  const int engine = due_.top().engine;
  due_.pop();
  scheduled_ns_[engine] = kNever;
  engines_[engine].Advance(now, reports, &stretches_);
  Take(engine, &stretches_);
  Schedule(engine);
}

void Fleet::Take(int engine, std::vector<Stretch>* stretches) {
  for (const Stretch& stretch : *stretches) {
    const double seconds = static_cast<double>(stretch.end_ns - stretch.begin_ns) * 1e-9;
    (stretch.activity == Activity::kDecode ? decode_seconds_ : prefill_seconds_) += seconds;
    busy_seconds_[engine] += seconds;
    timeline_.Add(engine, stretch);
  }
  stretches->clear();
}

void Fleet::Progress(std::int64_t session, std::int64_t context_tokens) {
  balancer_.Progress(seats_.at(session).lease, context_tokens);
}

void Fleet::Pause(std::int64_t session, std::int64_t now) {
  if (const auto seat = seats_.find(session); seat != seats_.end())
    balancer_.Pause(seat->second.lease, now);
}

void Fleet::Release(std::int64_t session, std::int64_t now) {
  const auto seat = seats_.find(session);
  if (seat == seats_.end()) return;
  balancer_.Release(seat->second.lease, Ending::kFinished, now);
  seats_.erase(seat);
}

void Fleet::EndSession(std::int64_t session) { balancer_.EndSession(session); }

void Fleet::Abort(std::int64_t session, std::int64_t now, std::vector<PassReport>* reports) {
  for (auto ask = waiting_.begin(); ask != waiting_.end(); ++ask) {
    if (ask->session != session) continue;
    waiting_.erase(ask);
    reports->push_back({session, 0, true});
    return;
  }
  const auto seat = seats_.find(session);
  if (seat == seats_.end()) return;
  engines_[seat->second.engine].Abort(now, session, reports);
  Schedule(seat->second.engine);
}

void Fleet::PauseAll(std::int64_t now, bool keeps_kv, std::vector<PassReport>* reports) {
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    engines_[i].Pause(now, keeps_kv, reports, &stretches_);
    Take(static_cast<int>(i), &stretches_);
    Schedule(static_cast<int>(i));
  }
}

void Fleet::ResumeAll(std::int64_t now, bool keeps_kv, std::int64_t version) {
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    if (!keeps_kv) balancer_.SetVersion(static_cast<int>(i), version);
    engines_[i].Resume(now);
    Schedule(static_cast<int>(i));
  }
}

bool Fleet::is_idle() const {
  for (const ModelledEngine& engine : engines_)
    if (!engine.is_idle()) return false;
  return waiting_.empty();
}

EngineCounts Fleet::counts() const {
  EngineCounts sum;
  for (const ModelledEngine& engine : engines_) sum += engine.counts();
  return sum;
}

}  // namespace agentmath::rollout
