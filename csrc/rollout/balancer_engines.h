// One engine as the balancer sees it: what is bound to it, and whether it may get more.
#pragma once

#include <cstdint>
#include <vector>

#include "rollout/balancer.h"

namespace agentmath::rollout {

struct Engine {
  EngineSpec spec;
  EngineState state = EngineState::kUp;

  std::int64_t weight = 0;  // sums over its leases
  std::int64_t context_tokens = 0;
  std::int64_t num_running = 0;
  std::int64_t num_paused = 0;
  std::int64_t num_placed = 0;  // ever
  double load = 0;              // weight / capacity

  std::uint32_t cache_epoch = 1;  // grows whenever its cache is void
  std::uint32_t down_epoch = 0;   // sessions whose cache_epoch is lower have lost their engine

  Breaker breaker = Breaker::kClosed;
  int num_failures = 0;      // in a row
  std::int64_t backoff = 0;  // nanoseconds
  std::int64_t reopen = 0;   // kOpen: when it may be probed
  std::int64_t probe = 0;    // kHalfOpen: the lease that decides, else 0

  std::int64_t num_bound() const { return num_running + num_paused; }

  // Add a lease's weight and tokens, or take them away.
  void Bind(std::int64_t weight_change, std::int64_t tokens_change);

  // Is it up, with these weights, and does its breaker let a new lease through?
  bool IsOpen(std::int64_t min_version, std::int64_t now) const {
    if (state != EngineState::kUp || spec.version < min_version) return false;
    if (breaker == Breaker::kClosed) return true;
    return breaker == Breaker::kOpen && now >= reopen;
  }
  // Is there room in its KV cache?
  bool Fits(std::int64_t num_tokens, double kv_share) const {
    if (spec.kv_tokens == 0) return true;
    if (num_bound() == 0) return num_tokens <= spec.kv_tokens;
    const double room = kv_share * static_cast<double>(spec.kv_tokens);
    return static_cast<double>(context_tokens + num_tokens) <= room;
  }
  bool CanEverFit(std::int64_t num_tokens) const {
    return spec.kv_tokens == 0 || num_tokens <= spec.kv_tokens;
  }

  // The breaker, fed with how leases end.
  void Probe(std::int64_t lease);
  void Succeeded(bool is_probe);
  void Failed(bool is_probe, const BalancerSettings& settings, std::int64_t now);
  void ProbeWithdrawn(std::int64_t now);
  void CloseBreaker();
};

}  // namespace agentmath::rollout
