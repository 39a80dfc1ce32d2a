#include "rollout/settings.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace agentmath::rollout {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 48;

void Demand(bool holds, const std::string& name, std::int64_t value, const char* wanted) {
  if (holds) return;
  throw std::invalid_argument(name + " = " + std::to_string(value) + ": " + wanted);
}

void Within(const char* name, std::int64_t value, std::int64_t least) {
  Demand(value >= least && value <= kMost, name, value,
         least > 0 ? "give 1 or more, at most 2^48" : "give 0 or more, at most 2^48");
}

void CheckBudgets(const Budgets& budgets) {
  Within("max_sampled_tokens", budgets.max_sampled_tokens, 1);
  Within("max_context_tokens", budgets.max_context_tokens, 1);
  Within("max_tool_calls", budgets.max_tool_calls, 0);
  Within("max_segments", budgets.max_segments, 1);
}

}  // namespace

void Check(const Settings& settings) {
  Within("groups_per_step", settings.groups_per_step, 1);
  Within("group_size", settings.group_size, 1);
  if (settings.stages.empty()) throw std::invalid_argument("stages is empty: give budgets");
  for (const Budgets& budgets : settings.stages) CheckBudgets(budgets);
  Within("window_steps", settings.window_steps, 1);
  if (!(settings.truncation_rate >= 0 && settings.truncation_rate <= 1)) {
    throw std::invalid_argument("truncation_rate: give a share from 0 to 1");
  }
  Within("segment_sampled_tokens", settings.segment_sampled_tokens, 0);
  Within("segment_tool_calls", settings.segment_tool_calls, 0);
  if (!(settings.over_submission >= 1 && settings.over_submission <= 1e6)) {
    throw std::invalid_argument("over_submission: give 1 or more, at most 1e6");
  }
  Within("max_in_flight", settings.max_in_flight, 0);
  Demand(settings.max_lag <= kMost, "max_lag", settings.max_lag, "at most 2^48");
  if (settings.mode == Mode::kAsync && settings.max_in_flight == 0 && settings.max_lag < 0) {
    throw std::invalid_argument(
        "asynchronous rollouts without max_in_flight and max_lag have no "
        "bound: give one of them");
  }
  Within("kv_budget_tokens", settings.kv_budget_tokens, 0);
  Within("max_running", settings.max_running, 0);
  Within("max_retries", settings.max_retries, 0);
  Demand(settings.round_nanoseconds >= 0, "round_nanoseconds", settings.round_nanoseconds,
         "give 0 or more");
  Demand(settings.request_nanoseconds >= 0, "request_nanoseconds", settings.request_nanoseconds,
         "give 0 or more");
  Demand(settings.tool_nanoseconds >= 0, "tool_nanoseconds", settings.tool_nanoseconds,
         "give 0 or more");
  Within("log_capacity", settings.log_capacity, 0);
}

}  // namespace agentmath::rollout
