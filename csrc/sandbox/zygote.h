// The zygote's loop: forks hardened children on request and reaps them. Single-threaded; it never
// sees code, input or output, so no child can find any here.
#pragma once

#include <sys/types.h>

#include <functional>

#include "sandbox/cgroup.h"
#include "sandbox/policy.h"
#include "sandbox/scratch.h"

namespace agentmath::sandbox {

struct ZygoteSettings {
  int control = -1;                // SOCK_SEQPACKET to the supervisor
  int trainer = -1;                // pidfd whose end ends this process, or -1
  int statm = -1;                  // this process's /proc/self/statm, opened before /proc is hidden
  int oom_score = -1;              // its /proc/self/oom_score_adj, to read and write, or -1
  Cgroup* cgroup = nullptr;        // the group that it is in, or null
  const Policy* policy = nullptr;  // null leaves seccomp out
  bool has_limits = true;
  bool has_pid_namespace = false;       // children start in another one than this process
  bool counts_processes_apart = false;  // the kernel's count of this uid holds nobody else's
  ScratchSettings scratch;
};

// Called around each fork in the zygote.
struct ForkHooks {
  std::function<void()> before;
  std::function<void()> after;
};

// Where a child finds its channel, right after the standard descriptors.
constexpr int kChannel = 3;

// Of all children of one uid together; what one may have, its address space bounds.
constexpr std::uint64_t kMaxTasks = 1 << 14;
// Of a zygote's control group: its children come to their own limit first, so that it can fork.
constexpr std::uint64_t kMaxTasksOfZygote = kMaxTasks + 1024;

// Exit code of a child that could not be hardened.
constexpr int kNotHardened = 125;

// Serves until the supervisor or the trainer is gone, ends all children and returns false; returns
// true in each child, hardened and in its scratch folder. Throws Error.
bool ServeZygote(ZygoteSettings settings, const ForkHooks& hooks);

}  // namespace agentmath::sandbox
