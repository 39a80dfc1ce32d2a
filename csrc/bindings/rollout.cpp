// agentmath._C.rollout: the scheduler, by calls of numbers; misuse raises RuntimeError.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/rooms.h"
#include "rollout/scheduler.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace agentmath {
namespace {

using rollout::Budgets;
using rollout::History;
using rollout::Scheduler;
using rollout::Settings;

std::tuple<std::int64_t, bool> Ask(Scheduler& scheduler, std::int64_t key,
                                   std::int64_t context_tokens) {
  const rollout::Allowance found = scheduler.Ask(key, context_tokens);
  return {found.tokens, found.bound == rollout::Allowance::Bound::kSegment};
}

std::vector<std::tuple<std::int64_t, std::int64_t, rollout::State, rollout::State>> Transitions(
    const Scheduler& scheduler) {
  std::vector<std::tuple<std::int64_t, std::int64_t, rollout::State, rollout::State>> rows;
  for (const rollout::Transition& t : scheduler.transitions())
    rows.emplace_back(t.sequence, t.key, t.from, t.to);
  return rows;
}

void BindRecords(nb::module_& m) {
  nb::enum_<rollout::Mode>(m, "Mode")
      .value("BATCH", rollout::Mode::kBatch)
      .value("SEGMENTS", rollout::Mode::kSegments)
      .value("QUOTA", rollout::Mode::kQuota)
      .value("ASYNC", rollout::Mode::kAsync);
  nb::enum_<rollout::State>(m, "State")
      .value("QUEUED", rollout::State::kQueued)
      .value("RUNNING", rollout::State::kRunning)
      .value("TOOL", rollout::State::kTool)
      .value("PARKED", rollout::State::kParked)
      .value("DONE", rollout::State::kDone)
      .value("FAILED", rollout::State::kFailed)
      .value("CANCELLED", rollout::State::kCancelled);
  nb::class_<Budgets>(m, "Budgets")
      .def(nb::init<>())
      .def_rw("sampled_tokens", &Budgets::sampled_tokens)
      .def_rw("context_tokens", &Budgets::context_tokens)
      .def_rw("tool_calls", &Budgets::tool_calls)
      .def_rw("segments", &Budgets::segments)
      .def_rw("segment_tokens", &Budgets::segment_tokens)
      .def_rw("segment_calls", &Budgets::segment_calls);
  nb::class_<Settings>(m, "Settings")
      .def(nb::init<>())
      .def_rw("mode", &Settings::mode)
      .def_rw("groups_per_step", &Settings::groups_per_step)
      .def_rw("groups_in_flight", &Settings::groups_in_flight)
      .def_rw("max_lag", &Settings::max_lag)
      .def_rw("max_rounds", &Settings::max_rounds)
      .def_rw("kv_tokens", &Settings::kv_tokens);
  nb::class_<History>(m, "History")
      .def(nb::init<>())
      .def_rw("context_tokens", &History::context_tokens)
      .def_rw("sampled_tokens", &History::sampled_tokens)
      .def_rw("tool_calls", &History::tool_calls)
      .def_rw("segments", &History::segments)
      .def_rw("oldest_version", &History::oldest_version);
}

}  // namespace

void BindRollout(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("rollout", "Scheduling of trajectories.");
  BindRecords(m);
  nb::class_<Scheduler>(m, "Scheduler")
      .def(nb::init<const Settings&, const Budgets&>(), "settings"_a, "budgets"_a)
      .def("set_budgets", &Scheduler::SetBudgets, "budgets"_a)
      .def("submit", &Scheduler::Submit, "group"_a, "samples"_a)
      .def("release", &Scheduler::Release)
      .def("cancel", &Scheduler::Cancel, "group"_a)
      .def("begin_step", &Scheduler::BeginStep, "version"_a)
      .def("credit", &Scheduler::Credit, "kept"_a)
      .def("begin_round", &Scheduler::BeginRound)
      .def("num_wanted", &Scheduler::NumWanted)
      .def("admit", &Scheduler::Admit)
      .def("is_round_over", &Scheduler::IsRoundOver)
      .def("is_step_over", &Scheduler::IsStepOver)
      .def("interrupt", &Scheduler::Interrupt)
      .def("is_fresh", &Scheduler::IsFresh, "oldest_version"_a)
      .def("ask", &Ask, "key"_a, "context_tokens"_a)
      .def("may_call", &Scheduler::MayCall, "key"_a)
      .def("sampled", &Scheduler::Sampled, "key"_a, "tokens"_a, "oldest_version"_a)
      .def("inserted", &Scheduler::Inserted, "key"_a, "tokens"_a)
      .def("call_began", &Scheduler::CallBegan, "key"_a)
      .def("call_ended", &Scheduler::CallEnded, "key"_a)
      .def("park", &Scheduler::Park, "key"_a)
      .def("end", &Scheduler::End, "key"_a, "outcome"_a)
      .def("state_of", &Scheduler::StateOf, "key"_a)
      .def("history_of", &Scheduler::HistoryOf, "key"_a)
      .def("unfinished", &Scheduler::Unfinished)
      .def("transitions", &Transitions)
      .def("dump", &Scheduler::Dump)
      .def_prop_ro("num_active", &Scheduler::num_active)
      .def_prop_ro("active_context_tokens", &Scheduler::active_context_tokens)
      .def_prop_ro("num_unfinished_groups", &Scheduler::num_unfinished_groups);
}

}  // namespace agentmath
