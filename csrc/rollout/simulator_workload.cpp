#include "rollout/simulator_workload.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/error.h"
#include "rollout/simulator_random.h"

namespace agentmath::rollout {
namespace {

enum Stream : std::uint64_t { kGroup = 0, kLength = 1, kCalls = 2 };

std::uint64_t StreamOf(std::uint64_t number, Stream stream) { return number * 4 + stream; }

void Refuse(const std::string& what) { throw Error("a workload cannot be made: " + what); }

void Check(const WorkloadSettings& s) {
  const auto is_positive = [](double value) { return value > 0 && std::isfinite(value); };
  const auto is_at_least_0 = [](double value) { return value >= 0 && std::isfinite(value); };
  if (s.group_size < 1) Refuse("a group has at least 1 trajectory");
  if (s.prompt_tokens < 0 || s.tool_output_tokens < 0) Refuse("token counts are at least 0");
  if (!is_positive(s.mean_tokens) || s.max_tokens < 1)
    Refuse("mean and most tokens are at least 1");
  if (!is_at_least_0(s.sigma) || !is_at_least_0(s.tool_sigma)) Refuse("sigmas are at least 0");
  if (!(s.group_correlation >= 0 && s.group_correlation <= 1))
    Refuse("the correlation within a group is between 0 and 1");
  if (!is_at_least_0(s.tokens_per_call) || s.max_calls < 0) Refuse("calls are at least 0");
  if (!is_at_least_0(s.tool_median_seconds) || !is_at_least_0(s.tool_timeout_seconds))
    Refuse("tool times are at least 0 seconds");
  if (!(s.tool_timeout_share >= 0 && s.tool_timeout_share <= 1))
    Refuse("the share of calls that time out is between 0 and 1");
}

}  // namespace

std::int64_t TrajectoryPlan::SampledTokens() const {
  std::int64_t total = 0;
  for (const TurnPlan& turn : turns) total += turn.tokens;
  return total;
}

Workload::Workload(const WorkloadSettings& settings, std::uint64_t seed)
    : settings_(settings), seed_(seed) {
  Check(settings);
}

TrajectoryPlan Workload::Plan(std::uint64_t trajectory) const {
  const WorkloadSettings& s = settings_;
  Random group(seed_, StreamOf(trajectory / s.group_size, kGroup));
  Random own(seed_, StreamOf(trajectory, kLength));
  const double shared = std::sqrt(s.group_correlation) * group.Normal();
  const double normal = shared + std::sqrt(1 - s.group_correlation) * own.Normal();
  const double length =
      std::exp(std::log(s.mean_tokens) - s.sigma * s.sigma / 2 + s.sigma * normal);
  std::int64_t left =
      std::max<std::int64_t>(1, std::llround(std::min(length, static_cast<double>(s.max_tokens))));

  TrajectoryPlan plan;
  Random calls(seed_, StreamOf(trajectory, kCalls));
  const std::int64_t most = s.tokens_per_call > 0 ? s.max_calls : 0;
  for (std::int64_t call = 0; call < most; ++call) {
    const double gap = std::ceil(calls.Exponential(s.tokens_per_call));
    const double seconds = s.tool_median_seconds * std::exp(s.tool_sigma * calls.Normal());
    const bool is_lost = calls.Uniform() < s.tool_timeout_share;
    if (gap >= static_cast<double>(left)) break;
    const bool timed_out = is_lost || seconds >= s.tool_timeout_seconds;
    const double taken = timed_out ? s.tool_timeout_seconds : seconds;
    plan.turns.push_back(
        {static_cast<std::int64_t>(gap), std::llround(taken * kSecond), timed_out});
    left -= plan.turns.back().tokens;
  }
  plan.turns.push_back({left, 0, false});
  return plan;
}

}  // namespace agentmath::rollout
