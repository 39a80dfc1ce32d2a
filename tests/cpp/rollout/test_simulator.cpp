// Whole simulations against times worked by hand, the bound, and what must be conserved.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "check.h"
#include "core/error.h"
#include "rollout/simulator.h"

namespace {

using agentmath::rollout::kSecond;
using agentmath::rollout::Mode;
using agentmath::rollout::Overdue;
using agentmath::rollout::Policy;
using agentmath::rollout::RoundResult;
using agentmath::rollout::Simulate;
using agentmath::rollout::SimulationResult;
using agentmath::rollout::SimulationSettings;
using agentmath::rollout::TrajectoryPlan;
using agentmath::rollout::Workload;

// One engine, one trajectory of 100 tokens a round, no tools. A step of B takes 10 + B ms, prefill
// 1 ms a token of the prompt of 20.
SimulationSettings Simple() {
  SimulationSettings s;
  s.workload.group_size = 1;
  s.workload.prompt_tokens = 20;
  s.workload.mean_tokens = 100;
  s.workload.sigma = 0;
  s.workload.max_tokens = 1000;
  s.workload.tokens_per_call = 0;
  s.engine.step_seconds = 0.010;
  s.engine.step_seconds_per_sequence = 0.001;
  s.engine.step_seconds_per_context_token = 0;
  s.engine.prefill_seconds_per_token = 0.001;
  s.engine.kv_tokens = 10000;
  s.num_engines = 1;
  s.scheduler.groups_per_step = 1;
  s.scheduler.group_size = 1;
  s.scheduler.stages = {{1000, 2000, 100, 4}};
  s.balancer.policy = Policy::kAgentMath;
  s.update_seconds = 0;
  s.num_rounds = 3;
  s.num_warmup_rounds = 1;
  s.seed = 7;
  return s;
}

// Everything at once: long tails, tools, several engines that are short of KV.
SimulationSettings Crowded(Mode mode) {
  SimulationSettings s = Simple();
  s.workload.group_size = 4;
  s.workload.sigma = 1;
  s.workload.tokens_per_call = 30;
  s.workload.tool_median_seconds = 0.3;
  s.workload.tool_output_tokens = 5;
  s.engine.step_seconds_per_context_token = 1e-5;
  s.engine.kv_tokens = 2500;
  s.num_engines = 3;
  s.scheduler.mode = mode;
  s.scheduler.groups_per_step = 6;
  s.scheduler.group_size = 4;
  s.scheduler.max_in_flight = 24;
  s.scheduler.stages = {{1000, 2000, 100, 4}};
  if (mode == Mode::kSegments) s.scheduler.segment_sampled_tokens = 120;
  s.balancer.policy = Policy::kBreakable;
  s.update_seconds = 0.5;
  s.train_seconds = 1;
  s.num_rounds = 8;
  s.num_warmup_rounds = 2;
  return s;
}

const std::vector<Mode> kModes = {Mode::kBatch, Mode::kSegments, Mode::kQuota, Mode::kAsync};

bool IsNear(double a, double b) { return std::fabs(a - b) <= 1e-6 * std::max(1.0, std::fabs(b)); }

double Seconds(const RoundResult& round) {
  return static_cast<double>(round.end_ns - round.begin_ns) / kSecond;
}

bool IsSame(const SimulationResult& a, const SimulationResult& b) {
  if (a.rounds.size() != b.rounds.size() || a.num_events != b.num_events) return false;
  for (std::size_t i = 0; i < a.rounds.size(); ++i) {
    if (a.rounds[i].end_ns != b.rounds[i].end_ns ||
        a.rounds[i].sampled_tokens != b.rounds[i].sampled_tokens)
      return false;
  }
  return a.timeline.decode() == b.timeline.decode() && a.idle_share == b.idle_share;
}

}  // namespace

TEST(one_trajectory_on_one_engine_takes_its_prefill_its_steps_and_the_update) {
  SimulationSettings settings = Simple();
  settings.update_seconds = 0.5;
  settings.train_seconds = 0.25;
  const SimulationResult result = Simulate(settings);
  for (const RoundResult& round : result.rounds)
    CHECK(IsNear(Seconds(round), 0.020 + 100 * 0.011 + 0.25 + 0.5));
  CHECK_EQUAL(result.num_trained, 2);
  CHECK_EQUAL(result.sampled_tokens, 200);
  CHECK(IsNear(result.bound_seconds, 2 * 100 * 0.011));
  CHECK(IsNear(result.idle_share[0], 1 - 2 * 1.120 / result.seconds));
}

TEST(tools_take_their_time_and_their_output_is_prefilled) {
  SimulationSettings settings = Simple();
  settings.workload.tokens_per_call = 20;
  settings.workload.tool_sigma = 0;
  settings.workload.tool_timeout_share = 0;
  settings.workload.tool_output_tokens = 3;
  const SimulationResult result = Simulate(settings);
  const Workload workload(settings.workload, settings.seed);
  for (std::size_t i = 0; i < result.rounds.size(); ++i) {
    const double calls = static_cast<double>(workload.Plan(i).turns.size()) - 1;
    CHECK(calls > 0);
    CHECK(IsNear(Seconds(result.rounds[i]), 0.020 + 100 * 0.011 + calls * (0.4 + 3 * 0.001)));
  }
}

TEST(four_equal_trajectories_on_two_engines_take_the_time_of_two_on_one) {
  SimulationSettings settings = Simple();
  settings.num_engines = 2;
  settings.scheduler.groups_per_step = 4;
  for (const Policy policy : {Policy::kAgentMath, Policy::kBreakable, Policy::kRoundRobin}) {
    settings.balancer.policy = policy;
    for (const RoundResult& round : Simulate(settings).rounds)
      CHECK(IsNear(Seconds(round), 2 * 0.020 + 100 * 0.012));
  }
}

TEST(lockstep_waits_for_the_slowest_of_every_turn) {
  SimulationSettings settings = Simple();
  settings.num_engines = 2;
  settings.is_lockstep = true;
  settings.workload.tokens_per_call = 20;
  settings.scheduler.groups_per_step = 2;
  const SimulationResult result = Simulate(settings);
  const Workload workload(settings.workload, settings.seed);
  for (std::size_t i = 0; i < result.rounds.size(); ++i) {
    const TrajectoryPlan a = workload.Plan(2 * i), b = workload.Plan(2 * i + 1);
    double seconds = 0.020;
    for (std::size_t turn = 0; turn < std::max(a.turns.size(), b.turns.size()); ++turn) {
      std::int64_t tokens = 0, tool_ns = 0;
      for (const TrajectoryPlan* plan : {&a, &b}) {
        if (turn >= plan->turns.size()) continue;
        tokens = std::max(tokens, plan->turns[turn].tokens);
        tool_ns = std::max(tool_ns, plan->turns[turn].tool_ns);
      }
      seconds += static_cast<double>(tokens) * 0.011 + static_cast<double>(tool_ns) / kSecond;
    }
    CHECK(IsNear(Seconds(result.rounds[i]), seconds));
  }
}

TEST(segments_end_at_their_bound_and_go_on_with_newer_weights) {
  SimulationSettings settings = Simple();
  settings.scheduler.mode = Mode::kSegments;
  settings.scheduler.segment_sampled_tokens = 40;
  settings.segment_fill = 0;
  settings.num_rounds = 6;
  settings.num_warmup_rounds = 0;
  const SimulationResult result = Simulate(settings);
  // 40, 40, 20 tokens; the context is computed anew after each update.
  const std::vector<double> prefill = {0.020, 0.060, 0.100};
  const std::vector<std::int64_t> tokens = {40, 40, 20};
  for (std::size_t i = 0; i < 6; ++i) {
    const RoundResult& round = result.rounds[i];
    CHECK_EQUAL(round.sampled_tokens, tokens[i % 3]);
    CHECK(IsNear(Seconds(round), prefill[i % 3] + static_cast<double>(tokens[i % 3]) * 0.011));
    CHECK_EQUAL(round.num_trained, i % 3 == 2 ? 1 : 0);
  }
  CHECK_EQUAL(result.max_lag, 2);
}

TEST(a_round_of_segments_has_a_group_however_few_places_there_are) {
  SimulationSettings settings = Simple();
  settings.scheduler.mode = Mode::kSegments;
  settings.segment_fill = 0.01;
  CHECK_EQUAL(Simulate(settings).num_trained, 2);
}

TEST(training_goes_on_beside_asynchronous_rollouts_only) {
  SimulationSettings settings = Simple();
  settings.num_rounds = 40;
  settings.num_warmup_rounds = 10;
  settings.train_seconds = 0.5;
  settings.scheduler.max_in_flight = 1;
  const double alone = Simulate(settings).seconds;
  settings.scheduler.mode = Mode::kAsync;
  const double beside = Simulate(settings).seconds;
  CHECK(IsNear(alone, 30 * (1.120 + 0.5)));
  CHECK(beside < 30 * (1.120 + 0.1) && beside > 30 * 1.100);
}

TEST(no_mode_beats_the_bound_or_loses_a_token) {
  for (const Mode mode : kModes) {
    for (const double share : {0.0, 0.8}) {
      SimulationSettings settings = Crowded(mode);
      settings.balancer_knows_kv = share > 0;
      settings.scheduler.kv_budget_tokens = static_cast<std::int64_t>(share * 3 * 2500);
      for (settings.seed = 0; settings.seed < 10; ++settings.seed) {
        const SimulationResult result = Simulate(settings);
        CHECK(result.num_trained > 0);
        CHECK_EQUAL(result.num_dropped, 0);
        CHECK(result.bound_seconds <= result.seconds);
        CHECK_EQUAL(result.sampled_tokens, result.counts.decoded_tokens);
        if (mode == Mode::kBatch) {
          CHECK_EQUAL(result.trained_tokens, result.sampled_tokens);
          CHECK_EQUAL(result.max_lag, 0);
        }
        if (mode == Mode::kSegments) CHECK(result.max_lag <= 3);
        double idle = 0;
        for (const double of_engine : result.idle_share) {
          CHECK(of_engine > -1e-9 && of_engine < 1);
          idle += of_engine;
        }
        CHECK(IsNear((3 - idle) * result.seconds, result.decode_seconds + result.prefill_seconds));
      }
    }
  }
}

TEST(every_trajectory_is_sampled_as_it_was_planned) {
  SimulationSettings settings = Crowded(Mode::kBatch);
  settings.num_warmup_rounds = 0;
  for (const std::int64_t reroute : {0, 16}) {
    settings.reroute_tokens = reroute;
    const SimulationResult result = Simulate(settings);
    const Workload workload(settings.workload, settings.seed);
    std::int64_t planned = 0;
    for (std::uint64_t i = 0; i < 8 * 24; ++i) planned += workload.Plan(i).SampledTokens();
    CHECK_EQUAL(result.trained_tokens, planned);
    CHECK_EQUAL(result.num_trained, 8 * 24);
  }
}

TEST(equal_settings_give_equal_results) {
  for (const Mode mode : kModes) {
    SimulationSettings settings = Crowded(mode);
    const SimulationResult first = Simulate(settings);
    CHECK(IsSame(first, Simulate(settings)));
    ++settings.seed;
    CHECK(!IsSame(first, Simulate(settings)));
  }
}

TEST(the_timeline_holds_all_the_time_that_engines_worked) {
  for (const Mode mode : kModes) {
    const SimulationResult result = Simulate(Crowded(mode));
    double decode = 0, prefill = 0;
    for (const double ns : result.timeline.decode()) decode += ns * 1e-9;
    for (const double ns : result.timeline.prefill()) prefill += ns * 1e-9;
    CHECK(IsNear(decode, result.decode_seconds));
    CHECK(IsNear(prefill, result.prefill_seconds));
  }
}

TEST(a_lag_that_is_bounded_is_kept) {
  for (const Mode mode : {Mode::kQuota, Mode::kAsync}) {
    for (const Overdue overdue : {Overdue::kWait, Overdue::kTruncate, Overdue::kCancel}) {
      SimulationSettings settings = Crowded(mode);
      settings.num_rounds = 30;
      settings.scheduler.max_lag = -1;
      const std::int64_t unbounded = Simulate(settings).max_lag;
      settings.scheduler.max_lag = 1;
      settings.scheduler.overdue = overdue;
      const SimulationResult result = Simulate(settings);
      CHECK(unbounded > 1);
      CHECK(result.max_lag <= 1);
      CHECK(result.num_trained > 0);
    }
  }
}

TEST(requests_that_are_interrupted_for_an_update_lose_nothing) {
  SimulationSettings settings = Crowded(Mode::kAsync);
  settings.interrupts_for_update = true;
  const SimulationResult result = Simulate(settings);
  CHECK_EQUAL(result.sampled_tokens, result.counts.decoded_tokens);
  CHECK_EQUAL(result.num_dropped, 0);
  CHECK(result.bound_seconds <= result.seconds);
}

TEST(kept_caches_save_prefill) {
  SimulationSettings settings = Crowded(Mode::kSegments);
  const std::int64_t dropped = Simulate(settings).counts.missed_tokens;
  settings.keeps_kv = true;
  CHECK(Simulate(settings).counts.missed_tokens < dropped);
}

TEST(what_cannot_be_simulated_is_refused) {
  SimulationSettings settings = Simple();
  settings.num_warmup_rounds = 3;
  CHECK_THROWS(agentmath::Error, Simulate(settings));
  settings = Simple();
  settings.is_lockstep = true;
  settings.scheduler.mode = Mode::kQuota;
  CHECK_THROWS(agentmath::Error, Simulate(settings));
  settings = Simple();
  settings.num_engines = 0;
  CHECK_THROWS(agentmath::Error, Simulate(settings));
  settings = Simple();
  settings.engine.kv_tokens = 60;
  CHECK_THROWS(agentmath::Error, Simulate(settings));
}
