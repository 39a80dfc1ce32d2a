// Fixed-size records between supervisor and zygote, on a SOCK_SEQPACKET pair. Both ends are ours
// and run the same binary, so the structs travel as they lie in memory. What cannot be one of them
// is refused all the same: neither end is to be at the mercy of the other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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
  std::uint64_t ran_out_of_memory = 0;  // 1: the kernel ended it for that, says its control group
};

// False when the bytes are no such record.
bool ParseRequest(std::string_view bytes, Request* request);
bool ParseNotice(std::string_view bytes, Notice* notice);

// The first message of each side is a text: the supervisor's set-up, and the zygote's answer, of
// which the first byte says whether it is ready. If it is, there follow a line with the scratch
// folder that is to be removed after it, or an empty one, and its description; else the reason.
constexpr char kReady = 'R';
constexpr char kFailed = 'F';
constexpr int kMaxTextBytes = 1 << 16;

struct Greeting {
  bool is_ready = false;
  std::string scratch_folder;
  std::string text;
};

// Whatever is no greeting reads as the failure that it is.
Greeting ParseGreeting(std::string_view bytes);

}  // namespace agentmath::sandbox
