// Balancers and requests as tests write them.
#pragma once

#include <cstdint>
#include <vector>

#include "rollout/balancer.h"

namespace agentmath::rollout {

inline BalancerSettings Of(Policy policy) {
  BalancerSettings settings;
  settings.policy = policy;
  settings.index_bytes = 1 << 16;
  settings.max_sessions = 100;
  return settings;
}

inline Request ByLength(std::int64_t session, std::int64_t num_tokens) {
  Request request;
  request.session = session;
  request.num_tokens = num_tokens;
  return request;
}

inline Request ByTokens(std::int64_t session, const std::vector<std::int32_t>& tokens) {
  Request request = ByLength(session, static_cast<std::int64_t>(tokens.size()));
  request.tokens = tokens.data();
  return request;
}

inline void AddEngines(Balancer* balancer, int n) {
  for (int i = 0; i < n; ++i) balancer->AddEngine({});
}

inline std::int64_t Weights(const Balancer& balancer) {
  std::int64_t sum = 0;
  for (int k = 0; k < balancer.GetStats().num_engines; ++k) sum += balancer.Look(k).weight;
  return sum;
}

}  // namespace agentmath::rollout
