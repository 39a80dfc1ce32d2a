#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings/rooms.h"
#include "core/error.h"
#include "sandbox/frame.h"
#include "sandbox/harden.h"
#include "sandbox/landlock.h"
#include "sandbox/limits.h"
#include "sandbox/namespaces.h"
#include "sandbox/policy.h"
#include "sandbox/probe.h"

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

void EnterNamespaces(bool user, bool net, bool ipc, bool uts, bool mount) {
  sandbox::Namespaces wanted;
  wanted.user = user;
  wanted.net = net;
  wanted.ipc = ipc;
  wanted.uts = uts;
  wanted.mount = mount;
  sandbox::EnterNamespaces(wanted);
}

std::tuple<std::uint64_t, std::uint64_t> ParseStatm(nb::bytes text) {
  const sandbox::MemoryUse use = sandbox::ParseStatm(
      {text.c_str(), text.size()}, static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
  return {use.address_space_bytes, use.data_bytes};
}

// The longest argument list of the module: each is one decision of the zygote, named at the call.
void Harden(int parent, int first_closed_fd, int landlock_ruleset, const sandbox::Policy* policy,
            std::uint64_t address_space_bytes, std::uint64_t data_bytes, std::uint64_t file_bytes,
            std::uint64_t stack_bytes, std::uint64_t open_files, std::uint64_t processes) {
  sandbox::Hardening hardening;
  hardening.parent = parent;
  hardening.first_closed_fd = first_closed_fd;
  hardening.landlock_ruleset = landlock_ruleset;
  hardening.policy = policy;
  hardening.limits = {address_space_bytes, data_bytes, file_bytes,
                      stack_bytes,         open_files, processes};
  sandbox::Harden(hardening);
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

nb::object ParseReport(nb::bytes buffer) {
  sandbox::Report report;
  std::size_t used = 0;
  try {
    used = sandbox::ParseReport({buffer.c_str(), buffer.size()}, &report);
  } catch (const Error& error) {
    throw nb::value_error(error.what());
  }
  if (used == 0) return nb::none();
  nb::object value = nb::none();
  if (report.has_value) value = nb::bytes(report.value.data(), report.value.size());
  return nb::make_tuple(used, static_cast<int>(report.outcome), report.sequence, report.exit_code,
                        value, nb::bytes(report.error.data(), report.error.size()));
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
  room.def("enter_namespaces", &EnterNamespaces, nb::kw_only(), "user"_a, "net"_a, "ipc"_a, "uts"_a,
           "mount"_a, "Move this single-threaded process into new namespaces.");
  room.def("close_mounts", &sandbox::CloseMounts, "scratch_base"_a,
           "Make all mounts read-only, hide /proc, put a tmpfs at scratch_base.");
  room.def("mount_scratch", &sandbox::MountScratch, "path"_a, "max_bytes"_a, "max_files"_a,
           "Make a folder with a size-limited tmpfs on it.");
  room.def("unmount_scratch", &sandbox::UnmountScratch, "path"_a,
           "Undo mount_scratch, contents included.");
  room.def("landlock_version", &sandbox::LandlockVersion,
           "The kernel's Landlock version, 0 without it.");
  room.def("make_landlock_ruleset", &sandbox::MakeLandlockRuleset, "readable"_a, "devices"_a,
           "writable"_a, "Descriptor of a ruleset; the caller closes it.");
  room.def("parse_statm", &ParseStatm, "text"_a,
           "(address space bytes, data bytes) from /proc/PID/statm.");
  nb::class_<sandbox::Policy>(room, "Policy", "Which syscalls model code may make.")
      .def(nb::init<bool>(), nb::kw_only(), "allow_metadata"_a);
  room.def("harden", &Harden, nb::kw_only(), "parent"_a, "first_closed_fd"_a, "landlock_ruleset"_a,
           "policy"_a.none(), "address_space_bytes"_a, "data_bytes"_a, "file_bytes"_a,
           "stack_bytes"_a, "open_files"_a, "processes"_a,
           "All that a child does to itself before model code; raises at the first failing step.");
  room.def("hide_memory", &sandbox::HideMemory,
           "Make this process's memory unreadable to others of its uid.");
  room.def("encode_report", &EncodeReport, "outcome"_a, "sequence"_a, "exit_code"_a,
           "value"_a.none(), "error"_a, "Frame of a child's report.");
  room.def("parse_report", &ParseReport, "buffer"_a,
           "(bytes used, outcome, sequence, exit code, value, error) or None; ValueError when "
           "malformed.");
}

}  // namespace agentmath
