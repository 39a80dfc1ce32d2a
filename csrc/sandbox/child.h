// One forked process as the supervisor sees it: its pipes, what it wrote, the block it runs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/descriptor.h"
#include "sandbox/capture.h"
#include "sandbox/frame.h"
#include "sandbox/reactor.h"
#include "sandbox/verdict.h"

namespace agentmath::sandbox {

struct Child;
class Nursery;

enum class Received { kSomething, kNothing, kEnd };

// One execute call.
struct Job {
  std::uint64_t number = 0;
  std::string code;
  std::string input;  // what the block reads as standard input
  Bounds bounds;
  std::uint64_t session = 0;  // 0 for none
  std::optional<std::uint64_t> seed;
  double received = 0;  // seconds as Now() tells them
  double started = 0;
  int attempts = 0;
  bool is_answered = false;  // before its process is gone, which then is nobody's news
  Child* child = nullptr;    // the process that runs it, from the start on
  Reactor::Timer queue_timer;
};

// From the request to fork it until it was reaped.
struct Child {
  std::uint32_t number = 0;
  Nursery* nursery = nullptr;
  Descriptor channel, out_fd, err_fd;
  Reactor::Watch channel_watch = Reactor::kNone;
  Reactor::Watch out_watch = Reactor::kNone;
  Reactor::Watch err_watch = Reactor::kNone;
  std::uint64_t cpu_allowance =
      0;  // seconds at which the kernel ends it: the supervisor's backstop
  std::uint64_t session = 0;
  bool is_parked = false;
  pid_t pid = 0;  // 0 until the zygote has said it
  Job* job = nullptr;
  std::uint32_t sequence = 0;
  double cpu_before = 0;  // CPU seconds used when the running block began
  Capture out, err;
  std::uint64_t peak_memory_bytes = 0;  // of a live process, as last read
  std::optional<Report> report;
  std::optional<Status> killed_for;
  std::string why;
  Reactor::Timer watch_timer, wall_timer, cpu_timer, kill_timer;
  bool was_reset = false;  // the channel was closed with a command unread: the code never ran
  std::string unsent;
  std::string incomplete;  // the front of a report

  // Died before it had read its first block, which no model code can bring about.
  bool is_silent() const { return sequence <= 1 && !report && (was_reset || !unsent.empty()); }

  // Makes the next block the running one and queues its command; SendCommand sends it.
  void Begin(Job* next);

  // Sends what the channel takes.
  void SendCommand();

  // Adds the reports that have come to `reports`. Throws Error on a malformed one.
  Received Receive(std::vector<Report>* reports);

  // Takes what stands in an output pipe; false at its end.
  bool Read(const Descriptor& fd);

  // Takes all that stands in both pipes, but no more than ends an execution anyway.
  void Drain();

  bool exceeds_output() const;

  // CPU time of the live process so far, all threads, from the kernel's clock of that process.
  double CpuSeconds() const;

  // Asks the kernel for the largest resident size of the live process; /proc may not tell.
  void ReadPeakMemory();
};

}  // namespace agentmath::sandbox
