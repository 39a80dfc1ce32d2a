#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings/rooms.h"
#include "core/error.h"
#include "sandbox/cgroup.h"
#include "sandbox/frame.h"
#include "sandbox/harden.h"
#include "sandbox/namespaces.h"
#include "sandbox/policy.h"
#include "sandbox/probe.h"
#include "sandbox/supervisor.h"
#include "sandbox/zygote.h"

namespace agentmath {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

using ProbeRow = std::tuple<std::string, bool, std::string>;

ProbeRow Row(const sandbox::Probe& probe) { return {probe.layer, probe.available, probe.why_not}; }

std::vector<ProbeRow> ProbeLayers(const std::string& scratch_base, bool wants_user_namespace) {
  std::vector<ProbeRow> rows;
  for (const sandbox::Probe& probe : sandbox::ProbeLayers(scratch_base, wants_user_namespace))
    rows.push_back(Row(probe));
  return rows;
}

ProbeRow ProbeUidDrop(unsigned id, const std::vector<std::string>& needed) {
  return Row(sandbox::ProbeUidDrop(id, needed));
}

void EnterNamespaces(const std::set<std::string>& layers) {
  sandbox::Namespaces wanted;
  wanted.user = layers.count("user_namespace") > 0;
  wanted.pid = layers.count("pid_namespace") > 0;
  wanted.net = layers.count("net_namespace") > 0;
  wanted.ipc = layers.count("ipc_namespace") > 0;
  wanted.uts = layers.count("uts_namespace") > 0;
  wanted.mount = layers.count("mount_namespace") > 0;
  sandbox::EnterNamespaces(wanted);
}

sandbox::Cgroup EnterCgroup(pid_t trainer) {
  return sandbox::Cgroup::Enter(sandbox::FindCgroupPlaces(), trainer, sandbox::kMaxTasksOfZygote);
}

bool ServeZygote(int control, int trainer, int statm, int oom_score, sandbox::Cgroup* cgroup,
                 const std::set<std::string>& layers, const std::string& scratch_base,
                 const std::vector<std::string>& readable) {
  const bool has_mounts = layers.count("mount_namespace") > 0;
  std::optional<sandbox::Policy> policy;
  if (layers.count("seccomp") > 0) policy.emplace(has_mounts);
  sandbox::ZygoteSettings settings;
  settings.control = control;
  settings.trainer = trainer;
  settings.statm = statm;
  settings.oom_score = oom_score;
  settings.cgroup = cgroup;
  settings.policy = policy ? &*policy : nullptr;
  settings.has_limits = layers.count("rlimits") > 0;
  settings.has_pid_namespace = layers.count("pid_namespace") > 0;
  settings.counts_processes_apart =
      layers.count("user_namespace") > 0 || layers.count("uid_drop") > 0;
  settings.scratch = {scratch_base, has_mounts, layers.count("landlock") > 0, readable};
  const sandbox::ForkHooks hooks{PyOS_BeforeFork, PyOS_AfterFork_Parent};
  const bool is_child = sandbox::ServeZygote(settings, hooks);
  if (is_child) PyOS_AfterFork_Child();
  return is_child;
}

nb::bytes EncodeReport(int outcome, std::uint32_t sequence, std::int32_t exit_code,
                       nb::object value, nb::bytes error) {
  sandbox::Report report;
  report.outcome = static_cast<sandbox::Outcome>(outcome);
  report.sequence = sequence;
  report.exit_code = exit_code;
  report.has_value = !value.is_none();
  if (report.has_value) {
    const auto text = nb::cast<nb::bytes>(value);
    report.value.assign(text.c_str(), text.size());
  }
  report.error.assign(error.c_str(), error.size());
  const std::string frame = sandbox::EncodeReport(report);
  return nb::bytes(frame.data(), frame.size());
}

std::string Text(nb::bytes bytes) { return {bytes.c_str(), bytes.size()}; }

nb::object BytesOrNone(const std::optional<std::string>& text) {
  return text ? nb::object(nb::bytes(text->data(), text->size())) : nb::none();
}

template <typename T>
nb::object OrNone(const std::optional<T>& value) {
  return value ? nb::cast(*value) : nb::none();
}

nb::tuple FromBlock(const sandbox::Result& result) {
  const sandbox::Verdict& verdict = result.verdict;
  nb::dict facts;
  facts["exit_code"] = OrNone(verdict.exit_code);
  facts["signal"] = OrNone(verdict.signal);
  facts["stdout_bytes"] = result.out_bytes;
  facts["stderr_bytes"] = result.err_bytes;
  facts["cpu_seconds"] = result.cpu_seconds;
  facts["wall_seconds"] = result.wall_seconds;
  facts["queue_seconds"] = result.queue_seconds;
  facts["peak_memory_bytes"] = result.peak_memory_bytes;
  nb::dict texts;
  texts["stdout"] = nb::bytes(result.out.data(), result.out.size());
  texts["stderr"] = nb::bytes(result.err.data(), result.err.size());
  texts["value"] = BytesOrNone(verdict.value);
  texts["error"] = BytesOrNone(verdict.error);
  return nb::make_tuple(result.number, sandbox::Name(verdict.status), facts, texts);
}

nb::tuple FromResult(const sandbox::Result& result) {
  switch (result.event) {
    case sandbox::Event::kBlockEnded:
      return FromBlock(result);
    case sandbox::Event::kReady:
      return nb::make_tuple(result.number, "ready", result.text);
    case sandbox::Event::kSessionClosed:
      return nb::make_tuple(result.number, "closed", result.text);
    case sandbox::Event::kFailed:
      break;
  }
  return nb::make_tuple(result.number, "failed", result.text);
}

std::uint64_t Submit(sandbox::Supervisor& supervisor, nb::bytes code, nb::bytes input,
                     const sandbox::Bounds& bounds, std::uint64_t session,
                     std::optional<std::uint64_t> seed, bool is_awaited) {
  sandbox::Order order;
  order.execution = {Text(code), Text(input), bounds, session, seed};
  return supervisor.mailbox().Post(std::move(order), is_awaited);
}

std::uint64_t PostOrder(sandbox::Supervisor& supervisor, sandbox::Want want, std::uint64_t number,
                        std::uint64_t session) {
  sandbox::Order order;
  order.want = want;
  order.number = number;
  order.session = session;
  return supervisor.mailbox().Post(std::move(order));
}

nb::list Take(sandbox::Supervisor& supervisor) {
  nb::list taken;
  for (const sandbox::Result& result : supervisor.mailbox().TakeResults()) {
    taken.append(FromResult(result));
  }
  return taken;
}

nb::object Wait(sandbox::Supervisor& supervisor, std::uint64_t number, double seconds) {
  std::optional<sandbox::Result> result;
  {
    const nb::gil_scoped_release release;
    result = supervisor.mailbox().Wait(number, seconds);
  }
  return result ? nb::object(FromResult(*result)) : nb::none();
}

// Each kind of zygote is a pair: its set-up message, and the modules that it has loaded.
void MakeSupervisor(sandbox::Supervisor* place, const std::vector<std::string>& command,
                    const std::vector<std::string>& environment,
                    const std::vector<std::tuple<std::string, std::vector<std::string>>>& kinds,
                    const sandbox::Bounds& bounds, std::size_t num_workers, double queue_seconds,
                    std::uint64_t forks_per_zygote) {
  sandbox::DispatcherSettings settings;
  for (const auto& [setup, modules] : kinds) {
    sandbox::ZygoteKind kind;
    kind.settings = {command,           environment,       setup, num_workers, bounds.memory_bytes,
                     bounds.file_bytes, bounds.cpu_seconds};
    kind.modules = modules;
    settings.kinds.push_back(std::move(kind));
  }
  settings.num_workers = num_workers;
  settings.queue_seconds = queue_seconds;
  settings.idle_cpu_seconds = bounds.cpu_seconds;
  settings.forks_per_zygote = forks_per_zygote;
  new (place) sandbox::Supervisor(std::move(settings));
}

void BindSupervisor(nb::module_& room) {
  nb::class_<sandbox::Bounds>(room, "Bounds", "Limits on one execution, as numbers.")
      .def(
          "__init__",
          [](sandbox::Bounds* place, double cpu_seconds, double wall_seconds,
             std::uint64_t memory_bytes, std::uint64_t output_bytes, std::uint64_t file_bytes) {
            new (place)
                sandbox::Bounds{cpu_seconds, wall_seconds, memory_bytes, output_bytes, file_bytes};
          },
          nb::kw_only(), "cpu_seconds"_a, "wall_seconds"_a, "memory_bytes"_a, "output_bytes"_a,
          "file_bytes"_a);
  nb::class_<sandbox::Supervisor>(room, "Supervisor", "Runs executions on a thread of its own.")
      .def("__init__", &MakeSupervisor, nb::kw_only(), "command"_a, "environment"_a, "kinds"_a,
           "bounds"_a, "num_workers"_a, "queue_seconds"_a, "forks_per_zygote"_a)
      .def("submit", &Submit, "code"_a, "input"_a, "bounds"_a, nb::kw_only(), "session"_a,
           "seed"_a.none(), "is_awaited"_a)
      .def("open_session",
           [](sandbox::Supervisor& self) {
             return PostOrder(self, sandbox::Want::kOpenSession, 0, 0);
           })
      .def(
          "close_session",
          [](sandbox::Supervisor& self, std::uint64_t session) {
            return PostOrder(self, sandbox::Want::kCloseSession, 0, session);
          },
          "session"_a)
      .def(
          "cancel",
          [](sandbox::Supervisor& self, std::uint64_t number) {
            PostOrder(self, sandbox::Want::kCancel, number, 0);
          },
          "number"_a)
      .def_prop_ro("results_fd",
                   [](sandbox::Supervisor& self) { return self.mailbox().results_fd(); })
      .def("take", &Take)
      .def("wait", &Wait, "number"_a, "seconds"_a)
      .def(
          "forget",
          [](sandbox::Supervisor& self, std::uint64_t number) { self.mailbox().Forget(number); },
          "number"_a)
      .def("close", &sandbox::Supervisor::Close, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace

void BindSandbox(nb::module_& m) {
  nb::module_ room =
      m.def_submodule("sandbox", "What runs between fork and model code. Linux only.");
  room.def("probe_layers", &ProbeLayers, "scratch_base"_a, "wants_user_namespace"_a,
           "Rows (layer, available, why not); each layer is tried in a throw-away child.");
  room.def("probe_uid_drop", &ProbeUidDrop, "id"_a, "needed"_a,
           "Row for giving up root: can uid `id` read the paths in `needed`?");
  room.def("drop_to", &sandbox::DropTo, "id"_a, "Give up root for uid and gid `id`.");
  room.def("enter_namespaces", &EnterNamespaces, "layers"_a,
           "Move this single-threaded process into those of the layers that are namespaces.");
  room.def("close_mounts", &sandbox::CloseMounts, "scratch_base"_a,
           "Make all mounts read-only, hide /proc, put a tmpfs at scratch_base.");
  nb::class_<sandbox::Cgroup>(room, "Cgroup", "The control group that this process is in.");
  room.def("enter_cgroup", &EnterCgroup, "trainer"_a,
           "Make a control group for this process, see that it acts, and enter it.");
  room.def("serve_zygote", &ServeZygote, nb::kw_only(), "control"_a, "trainer"_a, "statm"_a,
           "oom_score"_a, "cgroup"_a.none(), "layers"_a, "scratch_base"_a, "readable"_a,
           "Fork and reap on request; True in each hardened child, False at the end.");
  room.def("hide_memory", &sandbox::HideMemory,
           "Make this process's memory unreadable to others of its uid.");
  room.def("encode_report", &EncodeReport, "outcome"_a, "sequence"_a, "exit_code"_a,
           "value"_a.none(), "error"_a, "Frame of a child's report.");
  BindSupervisor(room);
}

}  // namespace agentmath
