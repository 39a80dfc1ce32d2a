#include "sandbox/harden.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.h"
#include "sandbox/landlock.h"
#include "sandbox/namespaces.h"
#include "sandbox/policy.h"
#include "sandbox/syscalls.h"

namespace agentmath::sandbox {
namespace {

void CloseFrom(int first) {
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  if (errno != ENOSYS && errno != EPERM) throw SystemError("close_range");
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) throw SystemError("getrlimit NOFILE");
  for (rlim_t fd = first; fd < limit.rlim_cur; ++fd) close(static_cast<int>(fd));
}

void DieWithParent(pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
    throw SystemError("set the parent-death signal");
  if (getppid() != parent) throw Error("the parent is gone");
}

}  // namespace

void Harden(const Hardening& hardening) {
  umask(077);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) throw SystemError("set no_new_privs");
  if (hardening.landlock_ruleset >= 0) RestrictSelf(hardening.landlock_ruleset);
  CloseFrom(hardening.first_closed_fd);
  if (hardening.has_limits) ApplyLimits(hardening.limits);
  DropCapabilities();
  HideMemory();
  // After the change of credentials, which clears it.
  DieWithParent(hardening.parent);
  if (hardening.policy != nullptr) InstallFilter(hardening.policy->For(getpid()));
}

void HideMemory() {
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) throw SystemError("give up being dumpable");
}

}  // namespace agentmath::sandbox
