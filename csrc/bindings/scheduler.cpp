// agentmath._C.rollout: the scheduler, with its records as plain objects.
#include "rollout/scheduler.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/rooms.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace agentmath {
namespace {

using namespace rollout;

void BindEnums(nb::module_& m) {
  nb::enum_<Mode>(m, "Mode")
      .value("BATCH", Mode::kBatch)
      .value("SEGMENTS", Mode::kSegments)
      .value("QUOTA", Mode::kQuota)
      .value("ASYNC", Mode::kAsync);
  nb::enum_<Overdue>(m, "Overdue")
      .value("WAIT", Overdue::kWait)
      .value("TRUNCATE", Overdue::kTruncate)
      .value("CANCEL", Overdue::kCancel);
  nb::enum_<State>(m, "State")
      .value("NEW", State::kNew)
      .value("QUEUED", State::kQueued)
      .value("RUNNING", State::kRunning)
      .value("TOOL", State::kTool)
      .value("PARKED", State::kParked)
      .value("DONE", State::kDone)
      .value("FAILED", State::kFailed)
      .value("CANCELLED", State::kCancelled);
  nb::enum_<Reason>(m, "Reason")
      .value("NONE", Reason::kNone)
      .value("FINISHED", Reason::kFinished)
      .value("LENGTH", Reason::kLength)
      .value("MAX_TOOL_CALLS", Reason::kMaxToolCalls)
      .value("SEGMENT", Reason::kSegment)
      .value("INTERRUPTED", Reason::kInterrupted)
      .value("OVERDUE", Reason::kOverdue)
      .value("LOST", Reason::kLost)
      .value("LATE", Reason::kLate)
      .value("CANCELLED", Reason::kCancelled)
      .value("RESTARTED", Reason::kRestarted);
  nb::enum_<Outcome>(m, "Outcome")
      .value("CONTINUE", Outcome::kContinue)
      .value("CALL", Outcome::kCall)
      .value("FINISHED", Outcome::kFinished)
      .value("LENGTH", Outcome::kLength)
      .value("ABORTED", Outcome::kAborted);
  nb::enum_<Action>(m, "Action")
      .value("GENERATE", Action::kGenerate)
      .value("CALL", Action::kCall)
      .value("PARK", Action::kPark)
      .value("QUEUE", Action::kQueue)
      .value("END", Action::kEnd)
      .value("IGNORE", Action::kIgnore);
}

void BindSettings(nb::module_& m) {
  nb::class_<Budgets>(m, "Budgets")
      .def(nb::init<>())
      .def_rw("max_sampled_tokens", &Budgets::max_sampled_tokens)
      .def_rw("max_context_tokens", &Budgets::max_context_tokens)
      .def_rw("max_tool_calls", &Budgets::max_tool_calls)
      .def_rw("max_segments", &Budgets::max_segments);
  nb::class_<Settings>(m, "Settings")
      .def(nb::init<>())
      .def_rw("mode", &Settings::mode)
      .def_rw("groups_per_step", &Settings::groups_per_step)
      .def_rw("group_size", &Settings::group_size)
      .def_rw("stages", &Settings::stages)
      .def_rw("truncation_rate", &Settings::truncation_rate)
      .def_rw("window_steps", &Settings::window_steps)
      .def_rw("segment_sampled_tokens", &Settings::segment_sampled_tokens)
      .def_rw("segment_tool_calls", &Settings::segment_tool_calls)
      .def_rw("over_submission", &Settings::over_submission)
      .def_rw("max_in_flight", &Settings::max_in_flight)
      .def_rw("max_lag", &Settings::max_lag)
      .def_rw("overdue", &Settings::overdue)
      .def_rw("kv_budget_tokens", &Settings::kv_budget_tokens)
      .def_rw("max_running", &Settings::max_running)
      .def_rw("max_retries", &Settings::max_retries)
      .def_rw("round_nanoseconds", &Settings::round_nanoseconds)
      .def_rw("request_nanoseconds", &Settings::request_nanoseconds)
      .def_rw("tool_nanoseconds", &Settings::tool_nanoseconds)
      .def_rw("log_capacity", &Settings::log_capacity);
}

void BindAnswers(nb::module_& m) {
  nb::class_<Verdict>(m, "Verdict")
      .def_ro("action", &Verdict::action)
      .def_ro("reason", &Verdict::reason)
      .def_ro("ticket", &Verdict::ticket)
      .def_ro("max_new_tokens", &Verdict::max_new_tokens)
      .def_ro("ends_pass", &Verdict::ends_pass)
      .def_ro("needs_decision", &Verdict::needs_decision);
  nb::class_<Grant>(m, "Grant").def_ro("id", &Grant::id).def_ro("verdict", &Grant::verdict);
  nb::class_<Ended>(m, "Ended")
      .def_ro("id", &Ended::id)
      .def_ro("state", &Ended::state)
      .def_ro("reason", &Ended::reason);
  nb::class_<Decisions>(m, "Decisions")
      .def_ro("num_groups_wanted", &Decisions::num_groups_wanted)
      .def_ro("grants", &Decisions::grants)
      .def_ro("interrupts", &Decisions::interrupts)
      .def_ro("ended", &Decisions::ended)
      .def_ro("has_more_grants", &Decisions::has_more_grants)
      .def_ro("round_is_over", &Decisions::round_is_over)
      .def_ro("round_is_late", &Decisions::round_is_late);
  nb::class_<Released>(m, "Released")
      .def_ro("group", &Released::group)
      .def_ro("oldest_version", &Released::oldest_version)
      .def_ro("num_done", &Released::num_done)
      .def_ro("num_truncated", &Released::num_truncated)
      .def_ro("num_failed", &Released::num_failed)
      .def_ro("num_cancelled", &Released::num_cancelled);
}

void BindState(nb::module_& m) {
  nb::class_<Transition>(m, "Transition")
      .def_ro("sequence", &Transition::sequence)
      .def_ro("time", &Transition::time)
      .def_ro("id", &Transition::id)
      .def_ro("from_state", &Transition::from)
      .def_ro("to_state", &Transition::to)
      .def_ro("reason", &Transition::reason);
  nb::class_<View>(m, "View")
      .def_ro("id", &View::id)
      .def_ro("state", &View::state)
      .def_ro("reason", &View::reason)
      .def_prop_ro("context_tokens", [](const View& v) { return v.totals.context_tokens; })
      .def_prop_ro("sampled_tokens", [](const View& v) { return v.totals.sampled_tokens; })
      .def_ro("num_tool_calls", &View::num_tool_calls)
      .def_ro("num_segments", &View::num_segments)
      .def_ro("num_retries", &View::num_retries)
      .def_ro("oldest_version", &View::oldest_version)
      .def_ro("newest_version", &View::newest_version)
      .def_ro("ticket", &View::ticket);
  nb::class_<Stats>(m, "Stats")
      .def_ro("num_in_state", &Stats::num_in_state)
      .def_ro("num_groups_in_flight", &Stats::num_groups_in_flight)
      .def_ro("num_groups_ready", &Stats::num_groups_ready)
      .def_ro("num_bound_tokens", &Stats::num_bound_tokens)
      .def_ro("num_overdue_groups", &Stats::num_overdue_groups)
      .def_ro("num_transitions", &Stats::num_transitions)
      .def_ro("num_late_reports", &Stats::num_late_reports)
      .def_ro("num_retries", &Stats::num_retries)
      .def_ro("num_submitted", &Stats::num_submitted)
      .def_ro("num_done", &Stats::num_done)
      .def_ro("num_truncated", &Stats::num_truncated)
      .def_ro("num_failed", &Stats::num_failed)
      .def_ro("num_cancelled", &Stats::num_cancelled)
      .def_ro("num_groups_released", &Stats::num_groups_released)
      .def_ro("max_lag_seen", &Stats::max_lag_seen);
}

void Resume(Scheduler& scheduler, Id id, std::int64_t context, std::int64_t sampled,
            std::int64_t num_tool_calls, std::int64_t num_segments, std::int64_t oldest_version,
            std::int64_t newest_version) {
  View where;
  where.totals = {context, sampled};
  where.num_tool_calls = num_tool_calls;
  where.num_segments = num_segments;
  where.oldest_version = oldest_version;
  where.newest_version = newest_version;
  scheduler.Resume(id, where);
}

Verdict Generated(Scheduler& scheduler, Ticket ticket, std::int64_t context, std::int64_t sampled,
                  std::int64_t num_new, std::int64_t oldest, std::int64_t newest, Outcome outcome,
                  Time now) {
  return scheduler.Generated(ticket, {{context, sampled}, num_new, oldest, newest, outcome}, now);
}

// Calls take microseconds at most and keep the GIL, but for those that walk over everything.
void BindMethods(nb::module_& m) {
  using Unlocked = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<Scheduler>(m, "Scheduler")
      .def(nb::init<const Settings&>(), "settings"_a)
      .def("begin_round", &Scheduler::BeginRound, "wanted"_a, "now"_a, Unlocked())
      .def("take_groups", &Scheduler::TakeGroups, Unlocked())
      .def("interrupt", &Scheduler::Interrupt, "now"_a, Unlocked())
      .def("set_version", &Scheduler::SetVersion, "version"_a, "now"_a)
      .def("end_step", &Scheduler::EndStep)
      .def("close_intake", &Scheduler::CloseIntake)
      .def("submit", &Scheduler::Submit, "group"_a, "prompt_tokens"_a, "num_samples"_a, "now"_a)
      .def("resume", &Resume, "id"_a, nb::kw_only(), "context_tokens"_a, "sampled_tokens"_a,
           "num_tool_calls"_a, "num_segments"_a, "oldest_version"_a, "newest_version"_a)
      .def("generated", &Generated, "ticket"_a, "context_tokens"_a, "sampled_tokens"_a,
           "num_new_tokens"_a, "oldest_version"_a, "newest_version"_a, "outcome"_a, "now"_a)
      .def(
          "answered",
          [](Scheduler& s, Ticket ticket, std::int64_t context, std::int64_t sampled, Time now) {
            return s.Answered(ticket, {context, sampled}, now);
          },
          "ticket"_a, "context_tokens"_a, "sampled_tokens"_a, "now"_a)
      .def(
          "lost",
          [](Scheduler& s, Ticket ticket, std::int64_t context, std::int64_t sampled,
             bool owes_call,
             Time now) { return s.Lost(ticket, {context, sampled}, owes_call, now); },
          "ticket"_a, "context_tokens"_a, "sampled_tokens"_a, "owes_call"_a, "now"_a)
      .def("cancel", &Scheduler::Cancel, "id"_a, "now"_a)
      .def("cancel_group", &Scheduler::CancelGroup, "group"_a, "now"_a)
      .def("decide", &Scheduler::Decide, "now"_a, "limit"_a = 0)
      .def("next_deadline", &Scheduler::NextDeadline)
      .def("wakeup_fd", &Scheduler::WakeupFd)
      .def("set_kv_budget", &Scheduler::SetKvBudget, "tokens"_a)
      .def_prop_ro("version", &Scheduler::version)
      .def_prop_rw("stage", &Scheduler::stage, &Scheduler::SetStage)
      .def("__contains__", &Scheduler::Contains, "id"_a)
      .def("look", &Scheduler::Look, "id"_a)
      .def("stats", &Scheduler::GetStats)
      .def("take_log", &Scheduler::TakeLog)
      .def("dump", &Scheduler::Dump, "now"_a, Unlocked())
      .def("snapshot",
           [](const Scheduler& s) {
             std::string bytes;
             {
               nb::gil_scoped_release release;
               bytes = s.Snapshot();
             }
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def(
          "restore",
          [](Scheduler& s, nb::bytes bytes) {
            const std::string copy(bytes.c_str(), bytes.size());
            nb::gil_scoped_release release;
            s.Restore(copy);
          },
          "bytes"_a);
}

}  // namespace

void BindScheduler(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("rollout", "What may run, and when.");
  BindEnums(m);
  BindSettings(m);
  BindAnswers(m);
  BindState(m);
  BindMethods(m);
}

}  // namespace agentmath
