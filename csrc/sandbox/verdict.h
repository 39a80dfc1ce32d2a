// What became of a block of code, from the kernel's facts and the child's report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sandbox/frame.h"

namespace agentmath::sandbox {

enum class Status {
  kOk,
  kException,
  kExit,
  kSignal,
  kWallTimeout,
  kCpuTimeout,
  kMemory,
  kOutputLimit,
  kSyscallViolation,
  kSessionLost,
  kProtocolError,
  kQueueTimeout,
  kCancelled,
  kSandboxError,
};

// As users read it: "ok", "wall_timeout", ...
const char* Name(Status status);

// Limits on one execution.
struct Bounds {
  double cpu_seconds = 0;
  double wall_seconds = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t output_bytes = 0;
  std::uint64_t file_bytes = 0;

  // Output of one stream that ends the execution.
  std::uint64_t max_output_bytes() const { return 8 * output_bytes; }
};

struct Verdict {
  Status status = Status::kOk;
  std::optional<std::string> error = {};
  std::optional<std::string> value = {};
  std::optional<int> exit_code = {};
  std::optional<int> signal = {};
};

constexpr char kOutOfMemory[] =
    "ended by the kernel, since all snippets together took more memory than there is for them";

// How a process ended, and why if it was our doing.
struct End {
  int wait_status = 0;
  double cpu_seconds = 0;
  double cpu_limit_seconds = 0;      // of the block it ran
  bool ran_out_of_memory = false;    // its control group says so
  std::optional<Status> killed_for;  // the status for which the supervisor killed it
  std::string why;                   // that limit in words
};

// A session's block ended and its process lives on: all there is to go by is the report.
Verdict OfLiveChild(const Report& report);

// `report` is null when none came.
Verdict OfDeadChild(const End& end, const Report* report);

}  // namespace agentmath::sandbox
