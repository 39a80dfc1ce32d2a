// Drawn workloads have the moments that were asked for.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "check.h"
#include "core/error.h"
#include "rollout/simulator_workload.h"

namespace {

using agentmath::rollout::kSecond;
using agentmath::rollout::TrajectoryPlan;
using agentmath::rollout::TurnPlan;
using agentmath::rollout::Workload;
using agentmath::rollout::WorkloadSettings;

std::vector<double> LogLengths(const WorkloadSettings& settings, int count) {
  const Workload workload(settings, 5);
  std::vector<double> logs;
  for (int i = 0; i < count; ++i)
    logs.push_back(std::log(static_cast<double>(workload.Plan(i).SampledTokens())));
  return logs;
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST(lengths_are_lognormal_with_the_mean_that_was_asked_for) {
  WorkloadSettings settings;
  settings.max_tokens = 1'000'000'000;
  std::vector<double> logs = LogLengths(settings, 40000);
  std::vector<double> lengths;
  for (const double log : logs) lengths.push_back(std::exp(log));
  CHECK(std::fabs(Mean(lengths) / 17000 - 1) < 0.05);
  std::sort(lengths.begin(), lengths.end());
  CHECK(std::fabs(lengths[39600] / lengths[20000] / 10.2 - 1) < 0.1);  // p99 over median
}

TEST(a_group_shares_its_part_of_the_variance) {
  WorkloadSettings settings;
  settings.max_tokens = 1'000'000'000;
  settings.group_size = 2;
  const std::vector<double> logs = LogLengths(settings, 40000);
  const double mean = Mean(logs);
  double covariance = 0, variance = 0;
  for (std::size_t i = 0; i < logs.size(); i += 2) {
    covariance += 2 * (logs[i] - mean) * (logs[i + 1] - mean);
    variance += std::pow(logs[i] - mean, 2) + std::pow(logs[i + 1] - mean, 2);
  }
  CHECK(std::fabs(covariance / variance - 0.6) < 0.03);
}

TEST(lengths_and_calls_are_capped) {
  WorkloadSettings settings;
  settings.max_tokens = 20000;
  settings.max_calls = 3;
  const Workload workload(settings, 1);
  std::int64_t longest = 0, most = 0;
  for (int i = 0; i < 2000; ++i) {
    const TrajectoryPlan plan = workload.Plan(i);
    longest = std::max(longest, plan.SampledTokens());
    most = std::max<std::int64_t>(most, static_cast<std::int64_t>(plan.turns.size()) - 1);
    for (const TurnPlan& turn : plan.turns) CHECK(turn.tokens >= 1);
  }
  CHECK_EQUAL(longest, 20000);
  CHECK_EQUAL(most, 3);
}

TEST(tools_have_their_median_and_time_out) {
  const Workload workload(WorkloadSettings{}, 9);
  std::vector<double> seconds;
  int timeouts = 0;
  std::size_t calls = 0;
  for (int i = 0; i < 4000; ++i) {
    const TrajectoryPlan plan = workload.Plan(i);
    for (const TurnPlan& turn : plan.turns) {
      if (&turn == &plan.turns.back()) continue;
      ++calls;
      timeouts += turn.timed_out;
      CHECK_EQUAL(turn.timed_out, turn.tool_ns == 30 * kSecond);
      seconds.push_back(static_cast<double>(turn.tool_ns) / kSecond);
    }
  }
  std::sort(seconds.begin(), seconds.end());
  CHECK(std::fabs(seconds[seconds.size() / 2] / 0.4 - 1) < 0.05);
  CHECK(std::fabs(static_cast<double>(timeouts) / static_cast<double>(calls) / 0.005 - 1) < 0.3);
  CHECK(std::fabs(static_cast<double>(calls) / 4000 - 8) < 0.8);  // 16k tokens, one per 2,000
}

TEST(a_plan_depends_on_seed_and_number_alone) {
  const Workload a(WorkloadSettings{}, 1), b(WorkloadSettings{}, 1), c(WorkloadSettings{}, 2);
  b.Plan(3);
  CHECK_EQUAL(a.Plan(77).SampledTokens(), b.Plan(77).SampledTokens());
  CHECK(a.Plan(77).SampledTokens() != c.Plan(77).SampledTokens());
  CHECK(a.Plan(77).SampledTokens() != a.Plan(78).SampledTokens());
}

TEST(no_tools_is_one_turn) {
  WorkloadSettings settings;
  settings.tokens_per_call = 0;
  CHECK_EQUAL(Workload(settings, 1).Plan(4).turns.size(), std::size_t{1});
}

TEST(workloads_that_cannot_be_are_refused) {
  WorkloadSettings settings;
  settings.group_correlation = std::nan("");
  CHECK_THROWS(agentmath::Error, Workload(settings, 1));
  settings = {};
  settings.mean_tokens = 0;
  CHECK_THROWS(agentmath::Error, Workload(settings, 1));
}
