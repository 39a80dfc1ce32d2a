// Which syscalls model code may make.
//
// Everything CPython, numpy and sympy use is allowed. What a careless or curious program may try
// (processes, sockets, mounts, other processes' memory) is refused with EPERM, so that Python
// raises an ordinary exception. What no program of this kind has a reason for (foreign calling
// conventions, loading kernels and modules) ends the process with SIGSYS. Unknown calls get ENOSYS:
// libraries then fall back.
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace agentmath::sandbox {

// False on architectures that this policy has no numbers for.
bool PolicyKnowsThisArchitecture();

std::uint32_t PolicyArchitecture();

// The policy as a program, built once by the zygote so that each child only fills in its own pid.
class Policy {
 public:
  // `allow_metadata` lets chmod and utime through, which is safe only where everything but the
  // scratch folder is mounted read-only. Throws Error on an unknown architecture.
  explicit Policy(bool allow_metadata);

  // `self` is the only process that may be signalled.
  std::vector<sock_filter> For(pid_t self) const;

 private:
  std::vector<sock_filter> program_;
  std::vector<std::size_t> self_positions_;
};

// Installs a program for this process; no_new_privs must be set. Throws Error.
void InstallFilter(const std::vector<sock_filter>& program);

}  // namespace agentmath::sandbox
