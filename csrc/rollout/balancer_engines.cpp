#include "rollout/balancer_engines.h"

#include <algorithm>
#include <cstdint>

namespace agentmath::rollout {
namespace {

constexpr std::int64_t kMaxBackoff = 64;  // times the first one

}  // namespace

void Engine::Bind(std::int64_t weight_change, std::int64_t tokens_change) {
  weight += weight_change;
  context_tokens += tokens_change;
  load = static_cast<double>(weight) / spec.capacity;
}

void Engine::Probe(std::int64_t lease) {
  breaker = Breaker::kHalfOpen;
  probe = lease;
}

void Engine::Succeeded(bool is_probe) {
  if (breaker == Breaker::kClosed) {
    num_failures = 0;
  } else if (is_probe) {
    CloseBreaker();
  }
}

void Engine::Failed(bool is_probe, const BalancerSettings& settings, std::int64_t now) {
  if (settings.breaker_failures == 0) return;
  if (breaker != Breaker::kClosed && !is_probe) return;  // of before it opened
  if (!is_probe && ++num_failures < settings.breaker_failures) return;
  const std::int64_t first = settings.breaker_nanoseconds;
  backoff = is_probe ? std::min(backoff * 2, first * kMaxBackoff) : first;
  breaker = Breaker::kOpen;
  reopen = now > INT64_MAX - backoff ? INT64_MAX : now + backoff;
  probe = 0;
}

void Engine::ProbeWithdrawn(std::int64_t now) {
  breaker = Breaker::kOpen;
  reopen = now;
  probe = 0;
}

void Engine::CloseBreaker() {
  breaker = Breaker::kClosed;
  num_failures = 0;
  backoff = 0;
  probe = 0;
}

}  // namespace agentmath::rollout
