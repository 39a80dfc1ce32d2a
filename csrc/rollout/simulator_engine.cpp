#include "rollout/simulator_engine.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"

namespace agentmath::rollout {

EngineCounts& EngineCounts::operator+=(const EngineCounts& other) {
  decoded_tokens += other.decoded_tokens;
  wanted_tokens += other.wanted_tokens;
  missed_tokens += other.missed_tokens;
  preemptions += other.preemptions;
  evictions += other.evictions;
  return *this;
}

EngineCounts EngineCounts::operator-(const EngineCounts& other) const {
  return {decoded_tokens - other.decoded_tokens, wanted_tokens - other.wanted_tokens,
          missed_tokens - other.missed_tokens, preemptions - other.preemptions,
          evictions - other.evictions};
}

ModelledEngine::ModelledEngine(const EngineSettings& settings, std::int64_t prompt_tokens)
    : settings_(settings), prompt_tokens_(prompt_tokens) {
  const auto is_cost = [](double seconds) { return seconds >= 0 && seconds < 1e6; };
  if (!is_cost(settings.step_seconds) || !is_cost(settings.step_seconds_per_sequence) ||
      !is_cost(settings.step_seconds_per_context_token) ||
      !is_cost(settings.prefill_seconds_per_token))
    throw Error("an engine cannot be modelled: its times must be at least 0 seconds");
  if (settings.step_seconds + settings.step_seconds_per_sequence <= 0)
    throw Error("an engine cannot be modelled: a step must take some time");
  if (settings.kv_tokens < 2 || settings.max_batch < 0 || settings.report_tokens < 1)
    throw Error("an engine cannot be modelled: kv_tokens, max_batch or report_tokens is too small");
}

void ModelledEngine::Submit(std::int64_t now, const Pass& pass) {
  if (pass.tokens < 1 || pass.context_tokens < 0)
    throw Error("a pass samples at least 1 token, not " + std::to_string(pass.tokens));
  if (pass.context_tokens + pass.tokens > settings_.kv_tokens)
    throw Error("a context of " + std::to_string(pass.context_tokens + pass.tokens) +
                " tokens is more than the KV cache of " + std::to_string(settings_.kv_tokens) +
                " holds");
  waiting_.push_back(pass);
  if (phase_ == Phase::kIdle) {
    phase_ = Phase::kBoundary;
    next_ns_ = now;
  } else if (phase_ == Phase::kDecode && waiting_.size() == 1) {
    CutAt(now);  // it may join then
  }
}

// The span ends with the step that runs now.
void ModelledEngine::CutAt(std::int64_t now) {
  std::int64_t steps = StepsWithin(now - begin_ns_);
  if (begin_ns_ + StepsNs(steps) < now) ++steps;
  span_steps_ = std::min(span_steps_, steps);
  next_ns_ = begin_ns_ + StepsNs(span_steps_);
}

// Time of so many steps of the current batch: context grows by one token a sequence and step.
std::int64_t ModelledEngine::StepsNs(std::int64_t steps) const {
  const double n = static_cast<double>(steps), batch = static_cast<double>(running_.size());
  const double first = settings_.step_seconds + settings_.step_seconds_per_sequence * batch +
                       settings_.step_seconds_per_context_token * running_tokens_;
  const double growth = settings_.step_seconds_per_context_token * batch;
  return std::llround(1e9 * (n * first + growth * n * (n - 1) / 2));
}

// Whole steps that fit: the root of StepsNs, then exact by a step or two.
std::int64_t ModelledEngine::StepsWithin(std::int64_t ns) const {
  const double batch = static_cast<double>(running_.size());
  const double half = settings_.step_seconds_per_context_token * batch / 2;
  const double first = settings_.step_seconds + settings_.step_seconds_per_sequence * batch +
                       settings_.step_seconds_per_context_token * running_tokens_ - half;
  const double seconds = static_cast<double>(ns) * 1e-9;
  const double root = 2 * seconds / (first + std::sqrt(first * first + 4 * half * seconds));
  std::int64_t steps = std::max<std::int64_t>(0, static_cast<std::int64_t>(root));
  while (steps > 0 && StepsNs(steps) > ns) --steps;
  while (steps < span_steps_ && StepsNs(steps + 1) <= ns) ++steps;
  return std::min(steps, span_steps_);
}

void ModelledEngine::Advance(std::int64_t now, std::vector<PassReport>* reports,
                             std::vector<Stretch>* stretches) {
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kPaused:
      return;
    case Phase::kBoundary:
      Begin(now, reports);
      return;
    case Phase::kPrefill:
      stretches->push_back({begin_ns_, now, Activity::kPrefill, num_running(), running_tokens_});
      Begin(now, reports);
      return;
    case Phase::kDecode:
      Finish(now, span_steps_, reports, stretches);
      phase_ = is_idle() ? Phase::kIdle : Phase::kBoundary;
      next_ns_ = is_idle() ? kNever : now;
      return;
  }
}

void ModelledEngine::Finish(std::int64_t now, std::int64_t steps, std::vector<PassReport>* reports,
                            std::vector<Stretch>* stretches) {
  if (now > begin_ns_)
    stretches->push_back({begin_ns_, now, Activity::kDecode, num_running(), running_tokens_});
  steps_ += steps;
  unreported_ += steps;
  running_tokens_ += steps * num_running();
  counts_.decoded_tokens += steps * num_running();
  const bool tells_all = unreported_ >= settings_.report_tokens;
  if (tells_all) unreported_ = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Running& running = running_[i];
    const bool is_done = steps_ - running.joined_step == running.pass.tokens;
    if (is_done || tells_all) Report(&running, is_done, reports);
    if (is_done)
      Leave(running);
    else
      running_[kept++] = running;
  }
  running_.resize(kept);
}

void ModelledEngine::Report(Running* running, bool is_done, std::vector<PassReport>* reports) {
  const std::int64_t tokens = steps_ - running->reported_step;
  running->reported_step = steps_;
  if (tokens > 0 || is_done) reports->push_back({running->pass.session, tokens, is_done});
}

// Out of the batch, its KV stays as long as there is room.
void ModelledEngine::Leave(const Running& running) {
  const std::int64_t tokens = running.pass.context_tokens + steps_ - running.joined_step;
  running_tokens_ -= tokens;
  KeepIdle(running.pass, tokens);
}

void ModelledEngine::Begin(std::int64_t now, std::vector<PassReport>* reports) {
  while (running_tokens_ + num_running() > settings_.kv_tokens) {
    PutBack(running_.size() - 1, reports);
    ++counts_.preemptions;
  }
  EvictTo(settings_.kv_tokens - running_tokens_);
  const std::int64_t missed = Admit();
  begin_ns_ = now;
  if (missed > 0) {
    phase_ = Phase::kPrefill;
    next_ns_ = now + std::llround(1e9 * settings_.prefill_seconds_per_token * missed);
    return;
  }
  if (running_.empty()) {
    phase_ = Phase::kIdle;
    next_ns_ = kNever;
    return;
  }
  phase_ = Phase::kDecode;
  span_steps_ = std::min(settings_.report_tokens - unreported_,
                         (settings_.kv_tokens - running_tokens_) / num_running());
  for (const Running& running : running_)
    span_steps_ = std::min(span_steps_, running.pass.tokens - (steps_ - running.joined_step));
  next_ns_ = now + StepsNs(span_steps_);
}

// Take waiting passes into the batch, first come first served; returns tokens to compute.
std::int64_t ModelledEngine::Admit() {
  std::int64_t missed = 0;
  while (!waiting_.empty()) {
    const Pass& next = waiting_.front();
    if (settings_.max_batch > 0 && num_running() >= settings_.max_batch) break;
    // One per cent stays free, as in vLLM's watermark, lest the next step throws it out again.
    const std::int64_t reserve = running_.empty() ? 0 : settings_.kv_tokens / 100;
    const std::int64_t after = running_tokens_ + next.context_tokens + num_running() + 1;
    if (after + reserve > settings_.kv_tokens) break;
    missed += Join(next);
    waiting_.pop_front();
  }
  return missed;
}

std::int64_t ModelledEngine::Join(const Pass& pass) {
  std::int64_t cached = 0;
  if (group_sessions_.count(pass.group) > 0) cached = prompt_tokens_;
  if (const auto found = idle_.find(pass.session); found != idle_.end()) {
    cached = std::max(cached, found->second.tokens);
    DropIdle(found);
  }
  cached = std::min(cached, pass.context_tokens);
  running_tokens_ += pass.context_tokens;
  running_.push_back({pass, steps_, steps_});
  ++group_sessions_[pass.group];
  EvictTo(settings_.kv_tokens - running_tokens_);
  counts_.wanted_tokens += pass.context_tokens;
  counts_.missed_tokens += pass.context_tokens - cached;
  return pass.context_tokens - cached;
}

// Back to the head of the queue without its KV.
void ModelledEngine::PutBack(std::size_t index, std::vector<PassReport>* reports) {
  Running running = running_[index];
  Report(&running, false, reports);
  const std::int64_t made = steps_ - running.joined_step;
  running_tokens_ -= running.pass.context_tokens + made;
  if (--group_sessions_[running.pass.group] == 0) group_sessions_.erase(running.pass.group);
  running.pass.context_tokens += made;
  running.pass.tokens -= made;
  waiting_.push_front(running.pass);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
}

void ModelledEngine::Pause(std::int64_t now, bool keeps_kv, std::vector<PassReport>* reports,
                           std::vector<Stretch>* stretches) {
  if (phase_ == Phase::kDecode) {
    Finish(now, StepsWithin(now - begin_ns_), reports, stretches);
  } else if (phase_ == Phase::kPrefill) {
    stretches->push_back({begin_ns_, now, Activity::kPrefill, num_running(), running_tokens_});
  }
  for (Running& running : running_) Report(&running, false, reports);
  unreported_ = 0;
  if (!keeps_kv) {
    while (!running_.empty()) PutBack(running_.size() - 1, reports);
    EvictTo(0);
  }
  phase_ = Phase::kPaused;
  next_ns_ = kNever;
}

void ModelledEngine::Resume(std::int64_t now) {
  phase_ = is_idle() ? Phase::kIdle : Phase::kBoundary;
  next_ns_ = is_idle() ? kNever : now;
}

void ModelledEngine::Abort(std::int64_t now, std::int64_t session,
                           std::vector<PassReport>* reports) {
  const auto is_same = [&](const Pass& pass) { return pass.session == session; };
  const auto queued = std::find_if(waiting_.begin(), waiting_.end(), is_same);
  if (queued != waiting_.end()) {
    waiting_.erase(queued);
    reports->push_back({session, 0, true});
    if (phase_ != Phase::kPaused && is_idle()) {
      phase_ = Phase::kIdle;
      next_ns_ = kNever;
    }
    return;
  }
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const Running& r) { return is_same(r.pass); });
  if (found == running_.end()) return;
  if (phase_ == Phase::kDecode) CutAt(now);
  const std::int64_t made = steps_ - found->joined_step;
  const std::int64_t more = phase_ == Phase::kDecode ? span_steps_ : 1;
  found->pass.tokens = std::min(found->pass.tokens, made + std::max<std::int64_t>(more, 1));
}

void ModelledEngine::KeepIdle(const Pass& pass, std::int64_t tokens) {
  idle_tokens_ += tokens;
  idle_[pass.session] = {tokens, pass.group, idle_order_.insert(idle_order_.end(), pass.session)};
}

void ModelledEngine::DropIdle(std::unordered_map<std::int64_t, Idle>::iterator found) {
  idle_tokens_ -= found->second.tokens;
  if (--group_sessions_[found->second.group] == 0) group_sessions_.erase(found->second.group);
  idle_order_.erase(found->second.place);
  idle_.erase(found);
}

void ModelledEngine::EvictTo(std::int64_t tokens) {
  while (idle_tokens_ > tokens) {
    DropIdle(idle_.find(idle_order_.front()));
    ++counts_.evictions;
  }
}

}  // namespace agentmath::rollout
