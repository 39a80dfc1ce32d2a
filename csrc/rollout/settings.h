// What a scheduler is told at birth: mode, bounds and budgets. Lengths are in tokens.
#pragma once

#include <cstdint>
#include <vector>

namespace agentmath::rollout {

// How a round ends: a round is what the trainer asks for at once, one for each optimiser step.
enum class Mode : std::uint8_t {
  kBatch,     // every trajectory has ended
  kSegments,  // every trajectory has ended or reached the bounds of one pass; the rest is parked
  kQuota,     // enough groups have ended; more are submitted than are needed, the rest is parked
  kAsync,     // enough groups have ended; the rest goes on, also between rounds
};

// What becomes of a trajectory that, unless it ends in this round, will be too old to be trained on
// (max_lag), when the round has all the groups that it needs.
enum class Overdue : std::uint8_t {
  kWait,      // the round waits for it
  kTruncate,  // it ends as it is, as if a budget were used up
  kCancel,    // it is cancelled; its group goes on with those that have ended
};

// Bounds of a whole trajectory, in one stage of a curriculum.
struct Budgets {
  std::int64_t max_sampled_tokens = 64;   // generated length
  std::int64_t max_context_tokens = 256;  // prompt and tool output included
  std::int64_t max_tool_calls = 2;
  std::int64_t max_segments = 4;  // passes; the last one has no bound of its own (kSegments)
};

struct Settings {
  Mode mode = Mode::kBatch;
  std::int64_t groups_per_step = 16;  // what a round usually wants
  std::int64_t group_size = 8;        // trajectories of a new group, as far as max_in_flight counts

  std::vector<Budgets> stages = {Budgets{}};
  double truncation_rate = 0.1;   // a stage ends when a larger share is cut off by a budget ...
  std::int64_t window_steps = 1;  // ... in the mean of so many steps

  // kSegments: bounds of one pass; 0 is none. The earlier one ends the pass.
  std::int64_t segment_sampled_tokens = 0;
  std::int64_t segment_tool_calls = 0;

  // kQuota: groups in flight over groups_per_step. 1 submits what the round needs and no more;
  // above 1 a group that ends is replaced at once.
  double over_submission = 1.5;

  // kAsync: trajectories in flight; 0 is no bound but that of max_lag.
  std::int64_t max_in_flight = 0;

  // kQuota and kAsync: versions between the oldest token of a group and the weights that are
  // trained with it; below 0 is no bound.
  std::int64_t max_lag = -1;
  Overdue overdue = Overdue::kWait;

  // Admission. Of the trajectories that generate or wait for a tool: their context lengths
  // together, and their number; 0 is no bound. One is always admitted.
  std::int64_t kv_budget_tokens = 0;
  std::int64_t max_running = 0;

  std::int64_t max_retries = 0;  // of one trajectory, after failures of engine or tool

  // Nanoseconds until something is given up; 0 is never.
  std::int64_t round_nanoseconds = 0;
  std::int64_t request_nanoseconds = 0;
  std::int64_t tool_nanoseconds = 0;

  std::int64_t log_capacity = 0;  // transitions that are kept for TakeLog; older ones are dropped
};

// Throws std::invalid_argument that names the setting.
void Check(const Settings& settings);

}  // namespace agentmath::rollout
