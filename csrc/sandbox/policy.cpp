#include "sandbox/policy.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <initializer_list>

#include "core/error.h"
#include "sandbox/filter.h"
#include "sandbox/syscalls.h"

namespace agentmath::sandbox {
namespace {

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t kKill = SECCOMP_RET_KILL_PROCESS;
constexpr std::uint32_t kFirstX32 = 0x40000000;
constexpr std::uint64_t kInt = 0xffffffff;
constexpr std::uint64_t kWord = ~0ull;

// Stands for the child's pid until that is known; above the kernel's largest pid.
constexpr std::uint32_t kSelf = 0x7fffff01;

constexpr std::uint32_t Fail(int error_number) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error_number);
}

constexpr std::uint32_t kRefuse = Fail(EPERM);

// clang-format off
constexpr long kAllowed[] = {
    // files; Landlock decides which
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_preadv, SYS_pwritev,
    SYS_open, SYS_openat, SYS_creat, SYS_close, SYS_close_range, SYS_lseek, SYS_stat, SYS_lstat,
    SYS_fstat, SYS_newfstatat, SYS_statx, SYS_access, SYS_faccessat, SYS_faccessat2, SYS_readlink,
    SYS_readlinkat, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_getdents, SYS_getdents64, SYS_unlink,
    SYS_unlinkat, SYS_rename, SYS_renameat, SYS_renameat2, SYS_mkdir, SYS_mkdirat, SYS_rmdir,
    SYS_link, SYS_linkat, SYS_symlink, SYS_symlinkat, SYS_truncate, SYS_ftruncate, SYS_fallocate,
    SYS_fsync, SYS_fdatasync, SYS_flock, SYS_umask, SYS_statfs, SYS_fstatfs, SYS_fadvise64,
    SYS_readahead, SYS_sendfile, SYS_copy_file_range,
    // descriptors and waiting
    SYS_dup, SYS_dup2, SYS_dup3, SYS_pipe, SYS_pipe2, SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6,
    SYS_epoll_create, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_wait, SYS_epoll_pwait,
    SYS_epoll_pwait2, SYS_eventfd, SYS_eventfd2, SYS_signalfd, SYS_signalfd4, SYS_timerfd_create,
    SYS_timerfd_settime, SYS_timerfd_gettime, SYS_shutdown, SYS_getsockopt, SYS_getsockname,
    SYS_getpeername, SYS_recvfrom,
    // memory
    SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_msync, SYS_brk, SYS_mbind,
    SYS_get_mempolicy,
    // threads, futexes and this process's own signals
    SYS_futex, SYS_futex_waitv, SYS_futex_wake, SYS_futex_wait, SYS_futex_requeue,
    SYS_set_robust_list, SYS_rseq, SYS_set_tid_address, SYS_membarrier, SYS_gettid, SYS_getpid,
    SYS_getppid, SYS_getpgid, SYS_getpgrp, SYS_getsid, SYS_arch_prctl, SYS_sched_yield,
    SYS_sched_getaffinity, SYS_sched_getscheduler, SYS_sched_getparam, SYS_sched_get_priority_max,
    SYS_sched_get_priority_min, SYS_getcpu, SYS_getpriority, SYS_rt_sigaction, SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_sigaltstack,
    SYS_pause, SYS_wait4, SYS_waitid, SYS_restart_syscall, SYS_exit, SYS_exit_group,
    // time and facts
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday,
    SYS_time, SYS_alarm, SYS_setitimer, SYS_getitimer, SYS_timer_create, SYS_timer_settime,
    SYS_timer_gettime, SYS_timer_delete, SYS_timer_getoverrun, SYS_times, SYS_getrusage,
    SYS_getrlimit, SYS_sysinfo, SYS_uname, SYS_getrandom, SYS_getuid, SYS_geteuid, SYS_getgid,
    SYS_getegid, SYS_getresuid, SYS_getresgid, SYS_getgroups, SYS_capget,
};

constexpr long kRefused[] = {
    // processes
    SYS_fork, SYS_vfork, SYS_execve, SYS_execveat, SYS_setsid, SYS_setpgid, SYS_tkill,
    SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_open, SYS_pidfd_getfd,
    SYS_pidfd_send_signal, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
    SYS_process_madvise, SYS_process_mrelease, SYS_kcmp, SYS_get_robust_list, SYS_setpriority,
    SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr, SYS_sched_setaffinity,
    SYS_ioprio_set, SYS_setrlimit, SYS_move_pages, SYS_migrate_pages,
    // sockets and shared memory
    SYS_socket, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_setsockopt,
    SYS_sendmsg, SYS_sendmmsg, SYS_recvmsg, SYS_recvmmsg, SYS_shmget, SYS_shmat, SYS_shmctl,
    SYS_shmdt, SYS_semget, SYS_semop, SYS_semctl, SYS_semtimedop, SYS_msgget, SYS_msgsnd,
    SYS_msgrcv, SYS_msgctl, SYS_mq_open, SYS_mq_unlink, SYS_mq_timedsend, SYS_mq_timedreceive,
    SYS_mq_notify, SYS_mq_getsetattr,
    // privileges and namespaces
    SYS_unshare, SYS_setns, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid,
    SYS_setresgid, SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_capset, SYS_seccomp,
    SYS_personality, SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self,
    SYS_add_key, SYS_request_key, SYS_keyctl,
    // file systems
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree, SYS_open_tree_attr,
    SYS_move_mount, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_mount_setattr, SYS_mknod,
    SYS_mknodat, SYS_chown, SYS_fchown, SYS_lchown, SYS_fchownat, SYS_name_to_handle_at,
    SYS_open_by_handle_at, SYS_quotactl, SYS_acct, SYS_inotify_init, SYS_inotify_init1,
    SYS_inotify_add_watch, SYS_fanotify_init, SYS_fanotify_mark, SYS_sync, SYS_syncfs,
    // kernel interfaces with a history
    SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter,
    SYS_io_uring_register, SYS_memfd_create, SYS_memfd_secret, SYS_splice, SYS_tee, SYS_vmsplice,
    SYS_mlock, SYS_mlock2, SYS_mlockall, SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_remap_file_pages,
    // the machine
    SYS_clock_settime, SYS_settimeofday, SYS_adjtimex, SYS_clock_adjtime, SYS_sethostname,
    SYS_setdomainname, SYS_reboot, SYS_syslog, SYS_vhangup,
};

constexpr long kKilled[] = {
    SYS_kexec_load, SYS_kexec_file_load, SYS_init_module, SYS_finit_module, SYS_delete_module,
    SYS_swapon, SYS_swapoff,
};

constexpr long kMetadata[] = {
    SYS_chmod, SYS_fchmod, SYS_fchmodat, SYS_fchmodat2, SYS_utime, SYS_utimes, SYS_futimesat,
    SYS_utimensat,
};

// Callers treat "not supported" as the end of the matter, but not EPERM.
constexpr long kNotSupported[] = {
    SYS_getxattr, SYS_lgetxattr, SYS_fgetxattr, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr,
    SYS_listxattr, SYS_llistxattr, SYS_flistxattr, SYS_removexattr, SYS_lremovexattr,
    SYS_fremovexattr,
};
// clang-format on

std::vector<Case> AllowValues(int argument, std::initializer_list<std::uint64_t> values) {
  std::vector<Case> cases;
  for (const std::uint64_t value : values) cases.push_back({{{argument, kInt, value}}, kAllow});
  return cases;
}

void SetChecked(FilterBuilder* filter) {
  constexpr std::uint64_t kNewNamespaces = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |
                                           CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS |
                                           CLONE_NEWCGROUP;
  filter->SetCases(SYS_clone, {{{{0, CLONE_THREAD | kNewNamespaces, CLONE_THREAD}}, kAllow}},
                   kRefuse);
  // Its flags lie in memory, where a filter cannot look; the C library falls back to clone.
  filter->Set(SYS_clone3, Fail(ENOSYS));
  filter->SetCases(SYS_kill, AllowValues(0, {kSelf}), kRefuse);
  filter->SetCases(SYS_tgkill, AllowValues(0, {kSelf}), kRefuse);
  filter->SetCases(SYS_socketpair, AllowValues(0, {AF_UNIX}), kRefuse);
  // Without an address only the other end of a pair can be reached.
  filter->SetCases(SYS_sendto, {{{{4, kWord, 0}}, kAllow}}, kRefuse);
  // Reading limits only, and only one's own.
  filter->SetCases(
      SYS_prlimit64,
      {{{{0, kInt, 0}, {2, kWord, 0}}, kAllow}, {{{0, kInt, kSelf}, {2, kWord, 0}}, kAllow}},
      kRefuse);
  constexpr std::uint64_t kNameMemory = 0x53564d41;  // PR_SET_VMA, used by allocators
  filter->SetCases(
      SYS_prctl,
      AllowValues(0, {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_CAPBSET_READ, kNameMemory}),
      kRefuse);
  filter->SetCases(SYS_ioctl,
                   AllowValues(1, {TCGETS, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX, TIOCGWINSZ}),
                   Fail(ENOTTY));
  // Left out: owners and signals of descriptors, leases, directory notification, pipe sizes.
  filter->SetCases(
      SYS_fcntl,
      AllowValues(1, {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK,
                      F_SETLK, F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW}),
      kRefuse);
}

}  // namespace

std::uint32_t PolicyArchitecture() {
#if defined(__x86_64__)
  return AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
  return AUDIT_ARCH_AARCH64;
#else
  return 0;
#endif
}

bool PolicyKnowsThisArchitecture() { return PolicyArchitecture() != 0; }

Policy::Policy(bool allow_metadata) {
  if (!PolicyKnowsThisArchitecture()) {
    throw Error("seccomp: the policy knows x86-64 and aarch64 only");
  }
  FilterBuilder filter(PolicyArchitecture(), kFirstX32 - 1, kKill, Fail(ENOSYS));
  for (const long syscall : kAllowed) filter.Set(syscall, kAllow);
  for (const long syscall : kRefused) filter.Set(syscall, kRefuse);
  for (const long syscall : kKilled) filter.Set(syscall, kKill);
  for (const long syscall : kMetadata) filter.Set(syscall, allow_metadata ? kAllow : kRefuse);
  for (const long syscall : kNotSupported) filter.Set(syscall, Fail(EOPNOTSUPP));
  SetChecked(&filter);
  program_ = filter.Build();
  for (std::size_t i = 0; i < program_.size(); ++i) {
    const bool is_comparison = program_[i].code == (BPF_JMP | BPF_JEQ | BPF_K);
    if (is_comparison && program_[i].k == kSelf) self_positions_.push_back(i);
  }
}

std::vector<sock_filter> Policy::For(pid_t self) const {
  std::vector<sock_filter> program = program_;
  for (const std::size_t i : self_positions_) program[i].k = static_cast<std::uint32_t>(self);
  return program;
}

void InstallFilter(const std::vector<sock_filter>& program) {
  sock_fprog fprog{};
  fprog.len = static_cast<unsigned short>(program.size());
  fprog.filter = const_cast<sock_filter*>(program.data());
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &fprog, 0, 0) != 0)
    throw SystemError("install the seccomp filter");
}

}  // namespace agentmath::sandbox
