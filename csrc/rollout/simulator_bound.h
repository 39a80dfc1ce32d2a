// The work-conservation bound: what no scheduler and no balancer can beat.
#pragma once

#include <cstdint>

#include "rollout/simulator_engine.h"

namespace agentmath::rollout {

// Tokens sampled, and the sum over them of the context that each one was decoded against.
struct Work {
  std::int64_t tokens = 0;
  double context_tokens = 0;

  // Tokens sampled one after another from a context of that many tokens.
  static Work Of(std::int64_t tokens, std::int64_t context_tokens);
  Work& operator+=(const Work& other);
};

// Engine seconds that the work takes at least, summed over engines: in the words of "work / R*",
// R* = B / (t0 + a B + c B x) at the best batch B there is, x the token-weighted mean context, B x
// at most the KV cache and B at most max_batch (0: no bound).
//
// Exact for the KV cache: each step carries at most kv_tokens of context, so there are at least
// context_tokens / kv_tokens steps. For a max_batch that is the mean number in flight it holds as
// long as engines do not sort their batches by context.
double EngineSecondsAtLeast(const EngineSettings& engine, const Work& work, double max_batch);

// Seconds that one sequence takes alone on an engine.
double SoloSeconds(const EngineSettings& engine, const Work& work);

}  // namespace agentmath::rollout
