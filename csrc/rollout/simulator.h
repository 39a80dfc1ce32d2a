// Rollouts as discrete events: the production scheduler and balancer drive engines and tools that
// are only modelled. Equal settings give equal results, bit for bit.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "rollout/balancer.h"
#include "rollout/settings.h"
#include "rollout/simulator_engine.h"
#include "rollout/simulator_timeline.h"
#include "rollout/simulator_workload.h"

namespace agentmath::rollout {

struct SimulationSettings {
  WorkloadSettings workload;
  EngineSettings engine;
  std::int64_t num_engines = 32;
  Settings scheduler;  // groups_per_step is what each round wants
  BalancerSettings balancer;
  bool balancer_knows_kv = false;  // the balancer holds back what is over its share of a KV cache

  // Everybody waits for everybody after each turn (with Mode::kBatch): the harshest baseline.
  bool is_lockstep = false;
  // Requests are cut after so many tokens and placed anew; 0: at turns only.
  std::int64_t reroute_tokens = 0;

  // Mode::kSegments: trajectories that work in one round, over those of groups_per_step groups: new
  // groups take the places of those that ended, also while others of their groups go on. 0: a round
  // has groups_per_step groups, however few of each go on.
  double segment_fill = 1;

  double train_seconds = 0;   // between rounds; in Mode::kAsync beside the next one
  double update_seconds = 3;  // engines stand still for new weights
  bool keeps_kv = false;      // over an update
  // Mode::kAsync: requests are interrupted for an update and placed anew, else they only pause.
  bool interrupts_for_update = false;

  std::int64_t num_rounds = 12;
  std::int64_t num_warmup_rounds = 4;  // of these; not counted in the totals
  std::uint64_t seed = 0;
  const std::atomic<bool>* stop = nullptr;  // once true, Simulate throws Error
};

// One round, until the next one begins.
struct RoundResult {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t num_trained = 0;  // trajectories that ended well and were taken
  std::int64_t num_dropped = 0;  // ... or otherwise
  std::int64_t trained_tokens = 0;
  std::int64_t max_lag = 0;  // versions, of what was taken
  std::int64_t sampled_tokens = 0;
  double context_tokens = 0;        // summed over the sampled tokens
  double longest_solo_seconds = 0;  // decoding alone, and tools, of one trajectory in this round
};

// Sums over the rounds after the warm-up.
struct SimulationResult {
  std::vector<RoundResult> rounds;  // all of them
  std::int64_t num_measured = 0;    // rounds
  double seconds = 0;
  std::int64_t num_trained = 0;
  std::int64_t num_dropped = 0;
  std::int64_t trained_tokens = 0;
  std::int64_t sampled_tokens = 0;
  std::int64_t max_lag = 0;
  std::int64_t most_in_flight = 0;  // trajectories submitted and not ended
  double bound_seconds = 0;         // that no scheduler can beat, see simulator_bound.h
  double decode_seconds = 0;        // engine seconds, over all engines
  double prefill_seconds = 0;
  double update_seconds = 0;
  EngineCounts counts;             // sums over engines
  std::int64_t num_moves = 0;      // sessions that left an engine which was there
  std::vector<double> idle_share;  // by engine: neither decoding nor prefilling
  Timeline timeline{0};            // after the warm-up
  std::int64_t num_events = 0;
};

// Throws Error or std::invalid_argument for settings that cannot work, Error when nothing can go
// on.
SimulationResult Simulate(const SimulationSettings& settings);

}  // namespace agentmath::rollout
