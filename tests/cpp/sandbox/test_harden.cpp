#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>

#include "check.h"
#include "core/error.h"
#include "sandbox/harden.h"

using agentmath::Error;
using agentmath::sandbox::Harden;
using agentmath::sandbox::Hardening;
using agentmath::sandbox::Policy;
using agentmath::sandbox::PolicyKnowsThisArchitecture;

namespace {

// No address space limit: sanitizers reserve terabytes.
Hardening Usual() {
  Hardening hardening;
  hardening.parent = getppid();
  hardening.limits = {1ull << 62, 1ull << 62, 1 << 20, 8 << 20, 64, 0};
  return hardening;
}

int ExitCodeOf(int (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      _exit(body());
    } catch (const std::exception&) {
      _exit(99);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST(a_hardened_process_has_no_privileges_no_descriptors_and_no_secrets_to_read) {
  CHECK_EQUAL(ExitCodeOf([] {
                const int inherited = dup2(open("/dev/null", O_RDONLY), 40);
                Harden(Usual());
                const bool is_closed = fcntl(inherited, F_GETFD) == -1 && errno == EBADF;
                const bool is_unprivileged = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
                const bool is_hidden = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0;
                int signal = 0;
                prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0);
                return is_closed && is_unprivileged && is_hidden && signal == SIGKILL ? 0 : 1;
              }),
              0);
}

TEST(the_policy_acts_after_hardening) {
  if (!PolicyKnowsThisArchitecture()) return;
  CHECK_EQUAL(ExitCodeOf([] {
                const Policy policy(false);
                Hardening hardening = Usual();
                hardening.policy = &policy;
                Harden(hardening);
                return fork() == -1 && errno == EPERM && kill(getpid(), 0) == 0 &&
                               kill(getppid(), 0) == -1
                           ? 0
                           : 1;
              }),
              0);
}

TEST(a_child_whose_parent_is_gone_is_not_hardened_but_refused) {
  CHECK_EQUAL(ExitCodeOf([] {
                Hardening hardening = Usual();
                hardening.parent = 1 + getppid();
                try {
                  Harden(hardening);
                } catch (const Error&) {
                  return 0;
                }
                return 1;
              }),
              0);
}
