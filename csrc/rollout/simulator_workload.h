// What trajectories want: lengths, tool calls and how long the tools take.
#pragma once

#include <cstdint>
#include <vector>

namespace agentmath::rollout {

constexpr std::int64_t kSecond = 1'000'000'000;  // the simulator's clock counts nanoseconds

struct WorkloadSettings {
  std::int64_t group_size = 8;
  std::int64_t prompt_tokens = 512;
  // Sampled tokens are lognormal, cut at max_tokens. mean_tokens is the mean before the cut.
  double mean_tokens = 17000;
  double sigma = 1.0;
  double group_correlation = 0.6;  // share of the variance of the logarithm that a group shares
  std::int64_t max_tokens = 96000;
  double tokens_per_call = 2000;  // calls are a Poisson process over sampled tokens; 0: no calls
  std::int64_t max_calls = 96;
  std::int64_t tool_output_tokens = 0;
  double tool_median_seconds = 0.4;
  double tool_sigma = 1.2;
  double tool_timeout_share = 0.005;  // calls that never answer, apart from the slow ones
  double tool_timeout_seconds = 30;
};

// One turn: tokens that are sampled, then a call unless it is the last one.
struct TurnPlan {
  std::int64_t tokens = 0;
  std::int64_t tool_ns = 0;
  bool timed_out = false;
};

struct TrajectoryPlan {
  std::vector<TurnPlan> turns;  // the last one ends the trajectory and has no call

  std::int64_t SampledTokens() const;
};

// Draws by trajectory number: the same for every mode and balancer, whatever ran before.
class Workload {
 public:
  // Throws Error on values that describe no workload.
  Workload(const WorkloadSettings& settings, std::uint64_t seed);

  TrajectoryPlan Plan(std::uint64_t trajectory) const;
  const WorkloadSettings& settings() const { return settings_; }

 private:
  WorkloadSettings settings_;
  std::uint64_t seed_;
};

}  // namespace agentmath::rollout
