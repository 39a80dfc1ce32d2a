#include <linux/seccomp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "check.h"
#include "sandbox/evaluate.h"
#include "sandbox/policy.h"
#include "sandbox/syscalls.h"

using agentmath::sandbox::Policy;
using agentmath::sandbox::PolicyArchitecture;
using agentmath::sandbox::PolicyKnowsThisArchitecture;

namespace {

constexpr pid_t kSelf = 4321;

std::uint32_t Decide(long number, std::vector<std::uint64_t> arguments = {},
                     bool allow_metadata = false) {
  static const std::vector<sock_filter> closed = Policy(false).For(kSelf);
  static const std::vector<sock_filter> open = Policy(true).For(kSelf);
  return Evaluate(allow_metadata ? open : closed,
                  Call(PolicyArchitecture(), number, std::move(arguments)));
}

constexpr std::uint32_t Fails(int error_number) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error_number);
}

}  // namespace

TEST(what_python_needs_is_allowed) {
  if (!PolicyKnowsThisArchitecture()) return;
  for (const long number : {SYS_read, SYS_write, SYS_openat, SYS_mmap, SYS_futex, SYS_exit_group,
                            SYS_getrandom, SYS_rt_sigaction, SYS_close_range, SYS_newfstatat}) {
    CHECK_EQUAL(Decide(number), SECCOMP_RET_ALLOW);
  }
}

TEST(processes_sockets_and_mounts_are_refused) {
  if (!PolicyKnowsThisArchitecture()) return;
  for (const long number : {SYS_execve, SYS_socket, SYS_connect, SYS_mount, SYS_ptrace, SYS_unshare,
                            SYS_bpf, SYS_io_uring_setup, SYS_memfd_create, SYS_setuid}) {
    CHECK_EQUAL(Decide(number), Fails(EPERM));
  }
}

TEST(unknown_calls_do_not_exist_and_foreign_ones_kill) {
  if (!PolicyKnowsThisArchitecture()) return;
  CHECK_EQUAL(Decide(9999), Fails(ENOSYS));
  CHECK_EQUAL(Decide(SYS_kexec_load), SECCOMP_RET_KILL_PROCESS);
  CHECK_EQUAL(Decide(0x40000000 | SYS_getpid), SECCOMP_RET_KILL_PROCESS);
  const auto program = Policy(false).For(kSelf);
  CHECK_EQUAL(Evaluate(program, Call(0x40000003, SYS_getpid)), SECCOMP_RET_KILL_PROCESS);
}

TEST(threads_may_be_made_but_not_processes_or_namespaces) {
  if (!PolicyKnowsThisArchitecture()) return;
  constexpr std::uint64_t kThread =
      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
  CHECK_EQUAL(Decide(SYS_clone, {kThread}), SECCOMP_RET_ALLOW);
  CHECK_EQUAL(Decide(SYS_clone, {SIGCHLD}), Fails(EPERM));
  CHECK_EQUAL(Decide(SYS_clone, {CLONE_VM | CLONE_VFORK | SIGCHLD}), Fails(EPERM));
  CHECK_EQUAL(Decide(SYS_clone, {kThread | CLONE_NEWUSER}), Fails(EPERM));
  CHECK_EQUAL(Decide(SYS_clone3), Fails(ENOSYS));
}

TEST(only_itself_may_be_signalled) {
  if (!PolicyKnowsThisArchitecture()) return;
  for (const long number : {SYS_kill, SYS_tgkill}) {
    CHECK_EQUAL(Decide(number, {kSelf, 9}), SECCOMP_RET_ALLOW);
    CHECK_EQUAL(Decide(number, {kSelf + 1, 9}), Fails(EPERM));
    CHECK_EQUAL(Decide(number, {0, 9}), Fails(EPERM));
    CHECK_EQUAL(Decide(number, {static_cast<std::uint64_t>(-1), 9}), Fails(EPERM));
  }
}

TEST(only_local_pairs_of_sockets_exist_and_nothing_is_sent_by_name) {
  if (!PolicyKnowsThisArchitecture()) return;
  CHECK_EQUAL(Decide(SYS_socketpair, {AF_UNIX}), SECCOMP_RET_ALLOW);
  CHECK_EQUAL(Decide(SYS_socketpair, {AF_INET}), Fails(EPERM));
  CHECK_EQUAL(Decide(SYS_sendto, {3, 4, 5, 0, 0, 0}), SECCOMP_RET_ALLOW);
  CHECK_EQUAL(Decide(SYS_sendto, {3, 4, 5, 0, 1ull << 32, 0}), Fails(EPERM));
}

TEST(limits_can_be_read_but_not_set) {
  if (!PolicyKnowsThisArchitecture()) return;
  CHECK_EQUAL(Decide(SYS_prlimit64, {0, 7, 0, 1}), SECCOMP_RET_ALLOW);
  CHECK_EQUAL(Decide(SYS_prlimit64, {kSelf, 7, 0, 1}), SECCOMP_RET_ALLOW);
  CHECK_EQUAL(Decide(SYS_prlimit64, {1, 7, 0, 1}), Fails(EPERM));
  CHECK_EQUAL(Decide(SYS_prlimit64, {0, 7, 1ull << 40, 0}), Fails(EPERM));
}

TEST(modes_of_files_change_only_where_mounts_are_read_only) {
  if (!PolicyKnowsThisArchitecture()) return;
  CHECK_EQUAL(Decide(SYS_fchmodat), Fails(EPERM));
  CHECK_EQUAL(Decide(SYS_fchmodat, {}, true), SECCOMP_RET_ALLOW);
  CHECK_EQUAL(Decide(SYS_fchownat, {}, true), Fails(EPERM));
}

TEST(each_child_gets_its_own_pid) {
  if (!PolicyKnowsThisArchitecture()) return;
  const Policy policy(false);
  for (const pid_t self : {1, 99, 4194303}) {
    const auto program = policy.For(self);
    const auto pid = static_cast<std::uint64_t>(self);
    CHECK_EQUAL(Evaluate(program, Call(PolicyArchitecture(), SYS_kill, {pid})), SECCOMP_RET_ALLOW);
    CHECK_EQUAL(Evaluate(program, Call(PolicyArchitecture(), SYS_kill, {pid + 1})), Fails(EPERM));
  }
}
