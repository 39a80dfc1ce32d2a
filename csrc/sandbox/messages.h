// Fixed-size records between supervisor and zygote, on a SOCK_SEQPACKET pair. Both ends are ours
// and run the same binary, so the structs travel as they lie in memory.
#pragma once

#include <cstdint>

namespace agentmath::sandbox {

enum class Ask : std::uint32_t { kFork, kKill, kAllowCpu };

// With kFork come three descriptors: channel, stdout, stderr of the child.
struct Request {
  Ask ask = Ask::kFork;
  std::uint32_t child = 0;
  std::uint64_t cpu_seconds = 0;  // of the kernel's own limit
  std::uint64_t memory_bytes = 0;
  std::uint64_t file_bytes = 0;
};

enum class Tell : std::uint32_t { kStarted, kNotStarted, kExited };

struct Notice {
  Tell tell = Tell::kStarted;
  std::uint32_t child = 0;
  std::int32_t pid = 0;
  std::int32_t wait_status = 0;
  double cpu_seconds = 0;
  std::uint64_t peak_memory_bytes = 0;
};

// The first message of each side is a text: the supervisor's set-up, and the zygote's answer, of
// which the first byte says whether it is ready.
constexpr char kReady = 'R';
constexpr char kFailed = 'F';
constexpr int kMaxTextBytes = 1 << 16;

}  // namespace agentmath::sandbox
