// agentmath._C.simulator: plain numbers in, plain numbers out; one call runs a whole simulation.
#include "rollout/simulator.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "bindings/rooms.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace agentmath {
namespace {

using namespace rollout;

struct Stop {
  std::atomic<bool> is_set = false;
};

// Sets fields from a dict by name; a name that is missing or unknown raises KeyError.
class Fields {
 public:
  explicit Fields(const nb::dict& values) : values_(values) {}

  template <typename T>
  Fields& Into(const char* name, T* field) {
    if (!values_.contains(name)) throw nb::key_error(name);
    *field = nb::cast<T>(values_[name]);
    ++num_taken_;
    return *this;
  }

  void End() const {
    if (num_taken_ != nb::len(values_)) throw nb::key_error("settings that nobody reads");
  }

 private:
  nb::dict values_;
  std::size_t num_taken_ = 0;
};

WorkloadSettings WorkloadFrom(const nb::dict& values) {
  WorkloadSettings s;
  Fields(values)
      .Into("group_size", &s.group_size)
      .Into("prompt_tokens", &s.prompt_tokens)
      .Into("mean_tokens", &s.mean_tokens)
      .Into("sigma", &s.sigma)
      .Into("group_correlation", &s.group_correlation)
      .Into("max_tokens", &s.max_tokens)
      .Into("tokens_per_call", &s.tokens_per_call)
      .Into("max_calls", &s.max_calls)
      .Into("tool_output_tokens", &s.tool_output_tokens)
      .Into("tool_median_seconds", &s.tool_median_seconds)
      .Into("tool_sigma", &s.tool_sigma)
      .Into("tool_timeout_share", &s.tool_timeout_share)
      .Into("tool_timeout_seconds", &s.tool_timeout_seconds)
      .End();
  return s;
}

EngineSettings EngineFrom(const nb::dict& values) {
  EngineSettings s;
  Fields(values)
      .Into("step_seconds", &s.step_seconds)
      .Into("step_seconds_per_sequence", &s.step_seconds_per_sequence)
      .Into("step_seconds_per_context_token", &s.step_seconds_per_context_token)
      .Into("prefill_seconds_per_token", &s.prefill_seconds_per_token)
      .Into("kv_tokens", &s.kv_tokens)
      .Into("max_batch", &s.max_batch)
      .Into("report_tokens", &s.report_tokens)
      .End();
  return s;
}

Settings SchedulerFrom(const nb::dict& values) {
  static const std::vector<std::string> overdues = {"wait", "truncate", "cancel"};
  static const std::vector<std::string> modes = {"batch", "segments", "quota", "async"};
  const auto place = [](const std::vector<std::string>& names, const std::string& name) {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == name) return static_cast<std::uint8_t>(i);
    throw nb::value_error(("no such mode: " + name).c_str());
  };
  Settings s;
  std::string mode, overdue;
  Budgets budgets;
  Fields(values)
      .Into("mode", &mode)
      .Into("groups_per_step", &s.groups_per_step)
      .Into("group_size", &s.group_size)
      .Into("segment_sampled_tokens", &s.segment_sampled_tokens)
      .Into("segment_tool_calls", &s.segment_tool_calls)
      .Into("over_submission", &s.over_submission)
      .Into("max_in_flight", &s.max_in_flight)
      .Into("max_lag", &s.max_lag)
      .Into("overdue", &overdue)
      .Into("kv_budget_tokens", &s.kv_budget_tokens)
      .Into("max_sampled_tokens", &budgets.max_sampled_tokens)
      .Into("max_context_tokens", &budgets.max_context_tokens)
      .Into("max_tool_calls", &budgets.max_tool_calls)
      .Into("max_segments", &budgets.max_segments)
      .End();
  s.mode = static_cast<Mode>(place(modes, mode));
  s.overdue = static_cast<Overdue>(place(overdues, overdue));
  s.stages = {budgets};
  return s;
}

BalancerSettings BalancerFrom(const nb::dict& values) {
  BalancerSettings s;
  std::string policy;
  Fields(values)
      .Into("policy", &policy)
      .Into("base_tokens", &s.base_tokens)
      .Into("base_weight", &s.base_weight)
      .Into("leave_factor", &s.leave_factor)
      .Into("kv_share", &s.kv_share)
      .Into("seed", &s.seed)
      .End();
  s.policy = PolicyFromName(policy);
  return s;
}

SimulationSettings SettingsFrom(const nb::dict& values) {
  SimulationSettings s;
  nb::dict workload, engine, scheduler, balancer;
  Fields(values)
      .Into("workload", &workload)
      .Into("engine", &engine)
      .Into("scheduler", &scheduler)
      .Into("balancer", &balancer)
      .Into("balancer_knows_kv", &s.balancer_knows_kv)
      .Into("num_engines", &s.num_engines)
      .Into("is_lockstep", &s.is_lockstep)
      .Into("reroute_tokens", &s.reroute_tokens)
      .Into("segment_fill", &s.segment_fill)
      .Into("train_seconds", &s.train_seconds)
      .Into("update_seconds", &s.update_seconds)
      .Into("keeps_kv", &s.keeps_kv)
      .Into("interrupts_for_update", &s.interrupts_for_update)
      .Into("num_rounds", &s.num_rounds)
      .Into("num_warmup_rounds", &s.num_warmup_rounds)
      .Into("seed", &s.seed)
      .End();
  s.workload = WorkloadFrom(workload);
  s.engine = EngineFrom(engine);
  s.scheduler = SchedulerFrom(scheduler);
  s.balancer = BalancerFrom(balancer);
  return s;
}

nb::dict FromRound(const RoundResult& round) {
  nb::dict out;
  out["begin_seconds"] = static_cast<double>(round.begin_ns) / kSecond;
  out["end_seconds"] = static_cast<double>(round.end_ns) / kSecond;
  out["num_trained"] = round.num_trained;
  out["num_dropped"] = round.num_dropped;
  out["sampled_tokens"] = round.sampled_tokens;
  out["max_lag"] = round.max_lag;
  out["longest_solo_seconds"] = round.longest_solo_seconds;
  return out;
}

// Rows of one value for each bin, cut where time ends, as shares of the bin's width.
nb::list RowsOf(const Timeline& timeline, const std::vector<double>& values) {
  const std::int64_t taken = (timeline.end_ns() - timeline.begin_ns()) / timeline.bin_ns() + 1;
  const std::int64_t bins = std::min(timeline.num_bins(), taken);
  nb::list rows;
  const std::size_t width = static_cast<std::size_t>(timeline.num_bins());
  for (std::size_t at = 0; at < values.size(); at += width) {
    nb::list row;
    for (std::int64_t bin = 0; bin < bins; ++bin)
      row.append(values[at + static_cast<std::size_t>(bin)] /
                 static_cast<double>(timeline.bin_ns()));
    rows.append(row);
  }
  return rows;
}

nb::dict FromTimeline(const Timeline& timeline) {
  nb::dict out;
  out["begin_seconds"] = static_cast<double>(timeline.begin_ns()) / kSecond;
  out["bin_seconds"] = static_cast<double>(timeline.bin_ns()) / kSecond;
  out["prefill"] = RowsOf(timeline, timeline.prefill());
  out["decode"] = RowsOf(timeline, timeline.decode());
  out["batch"] = RowsOf(timeline, timeline.batch());
  return out;
}

nb::dict FromResult(const SimulationResult& result, bool with_timeline) {
  nb::list rounds;
  for (const RoundResult& round : result.rounds) rounds.append(FromRound(round));
  nb::dict out;
  out["rounds"] = rounds;
  out["num_measured"] = result.num_measured;
  out["seconds"] = result.seconds;
  out["num_trained"] = result.num_trained;
  out["num_dropped"] = result.num_dropped;
  out["trained_tokens"] = result.trained_tokens;
  out["sampled_tokens"] = result.sampled_tokens;
  out["max_lag"] = result.max_lag;
  out["most_in_flight"] = result.most_in_flight;
  out["bound_seconds"] = result.bound_seconds;
  out["decode_seconds"] = result.decode_seconds;
  out["prefill_seconds"] = result.prefill_seconds;
  out["update_seconds"] = result.update_seconds;
  out["wanted_tokens"] = result.counts.wanted_tokens;
  out["missed_tokens"] = result.counts.missed_tokens;
  out["preemptions"] = result.counts.preemptions;
  out["num_moves"] = result.num_moves;
  out["idle_share"] = nb::cast(result.idle_share);
  if (with_timeline) out["timeline"] = FromTimeline(result.timeline);
  out["num_events"] = result.num_events;
  return out;
}

nb::dict Run(const nb::dict& settings, const Stop& stop, bool with_timeline) {
  SimulationSettings read = SettingsFrom(settings);
  read.stop = &stop.is_set;
  SimulationResult result;
  {
    nb::gil_scoped_release release;
    result = Simulate(read);
  }
  return FromResult(result, with_timeline);
}

// Turns of one trajectory as (tokens, seconds of the tool behind them).
nb::list Plan(const nb::dict& workload, std::uint64_t seed, std::uint64_t number) {
  nb::list turns;
  for (const TurnPlan& turn : Workload(WorkloadFrom(workload), seed).Plan(number).turns)
    turns.append(nb::make_tuple(turn.tokens, static_cast<double>(turn.tool_ns) / kSecond));
  return turns;
}

}  // namespace

void BindSimulator(nb::module_& parent) {
  nb::module_ m = parent.def_submodule(
      "simulator", "Rollouts as discrete events over the production scheduler and balancer.");
  m.def("plan", &Plan, "workload"_a, "seed"_a, "number"_a);
  nb::class_<Stop>(m, "Stop", "Ends simulations from another thread.")
      .def(nb::init<>())
      .def("set", [](Stop& self) { self.is_set = true; });
  m.def("simulate", &Run, "settings"_a, "stop"_a, nb::kw_only(), "with_timeline"_a);
}

}  // namespace agentmath
