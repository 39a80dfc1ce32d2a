// Everything that happens in a child between fork and the first line of model code.
#pragma once

#include <sys/types.h>

#include "sandbox/limits.h"
#include "sandbox/policy.h"

namespace agentmath::sandbox {

struct Hardening {
  bool has_limits = true;
  ResourceLimits limits;
  pid_t parent = 0;                // whose death ends this process
  int first_closed_fd = 4;         // this descriptor and all above it are closed
  int landlock_ruleset = -1;       // -1 leaves Landlock out
  const Policy* policy = nullptr;  // null leaves seccomp out
};

// Irreversible. Throws Error at the first step that fails; the caller must then end the process.
void Harden(const Hardening& hardening);

// Makes this process's memory unreadable to others of the same uid. Throws Error.
void HideMemory();

}  // namespace agentmath::sandbox
