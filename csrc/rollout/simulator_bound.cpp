#include "rollout/simulator_bound.h"

#include <algorithm>

namespace agentmath::rollout {

Work Work::Of(std::int64_t tokens, std::int64_t context_tokens) {
  const double n = static_cast<double>(tokens);
  return {tokens, n * static_cast<double>(context_tokens) + n * (n - 1) / 2};
}

Work& Work::operator+=(const Work& other) {
  tokens += other.tokens;
  context_tokens += other.context_tokens;
  return *this;
}

double EngineSecondsAtLeast(const EngineSettings& engine, const Work& work, double max_batch) {
  const double tokens = static_cast<double>(work.tokens);
  double steps = work.context_tokens / static_cast<double>(engine.kv_tokens);
  for (const double most : {max_batch, static_cast<double>(engine.max_batch)})
    if (most > 0) steps = std::max(steps, tokens / most);
  return engine.step_seconds * steps + engine.step_seconds_per_sequence * tokens +
         engine.step_seconds_per_context_token * work.context_tokens;
}

double SoloSeconds(const EngineSettings& engine, const Work& work) {
  return (engine.step_seconds + engine.step_seconds_per_sequence) *
             static_cast<double>(work.tokens) +
         engine.step_seconds_per_context_token * work.context_tokens;
}

}  // namespace agentmath::rollout
