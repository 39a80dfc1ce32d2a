#include "sandbox/zygote.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "sandbox/harden.h"
#include "sandbox/messages.h"

namespace agentmath::sandbox {
namespace {

constexpr std::uint64_t kStackBytes = 16 << 20;
constexpr std::uint64_t kOpenFiles = 64;
constexpr int kCheckParentMilliseconds = 1000;
// What the kernel may hold for a child besides its memory and files: page tables, stacks of
// threads, pipes.
constexpr std::uint64_t kKernelBytes = 32 << 20;
// More than any group may hold, and few enough bytes for the sum over all children.
constexpr std::uint64_t kBoundless = 1ull << 44;
// When memory runs out the kernel takes snippets first.
const char kFirstVictim[] = "1000";

// Set from outside and not by the child, which might undo a limit that was raised meanwhile. Soft,
// so that it can be.
void LimitCpu(pid_t pid, std::uint64_t seconds) {
  rlimit limit{};
  if (prlimit(pid, RLIMIT_CPU, nullptr, &limit) != 0) return;  // it is gone
  limit.rlim_cur = std::min<rlim_t>(seconds, limit.rlim_max);
  prlimit(pid, RLIMIT_CPU, &limit, nullptr);
}

// Whom the kernel ends first when memory runs out: children inherit what is written here.
class OomScore {
 public:
  explicit OomScore(int fd) : fd_(fd) {
    char text[16] = {};
    const ssize_t count = fd < 0 ? 0 : pread(fd, text, sizeof(text), 0);
    own_.assign(text, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }

  void BeforeFork() { Write(kFirstVictim); }
  void AfterFork() { Write(own_); }

 private:
  void Write(const std::string& text) {
    // Where it is refused all have the same score, and the largest is taken.
    if (!own_.empty() && pwrite(fd_, text.data(), text.size(), 0) < 0) own_.clear();
  }

  int fd_;
  std::string own_;
};

// Process 1 of the children's namespace: waits for the zygote's end, and when it ends itself the
// kernel ends all children.
struct Init {
  pid_t pid = 0;
  // Hangs up before the first child is killed for the end of process 1, which is reaped last.
  Descriptor lifeline;

  bool is_gone() const {
    pollfd wait{lifeline.get(), POLLIN, 0};
    return pid > 0 && poll(&wait, 1, 0) > 0;
  }
};

Init StartInit() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw SystemError("socketpair");
  Init init{0, Descriptor(ends[0])};
  const Descriptor its_end(ends[1]);
  init.pid = fork();
  if (init.pid < 0) throw SystemError("start process 1 of the pid namespace");
  if (init.pid > 0) return init;
  signal(SIGCHLD, SIG_IGN);  // whoever is orphaned is reaped
  for (int fd = 0; fd < 1024; ++fd) {
    if (fd != its_end.get()) close(fd);
  }
  // Not by a death signal: it could be asked for too late.
  char end = 0;
  while (read(its_end.get(), &end, 1) < 0 && errno == EINTR) {
  }
  _exit(0);
}

struct Incoming {
  Request request;
  std::vector<Descriptor> fds;
  bool is_end = false;
};

Incoming Receive(int control) {
  Incoming incoming;
  char bytes[sizeof(Request) + 1];  // so that a longer message does not pass for one
  iovec part{bytes, sizeof(bytes)};
  alignas(cmsghdr) char space[CMSG_SPACE(3 * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof(space);
  ssize_t count = -1;
  do {
    count = recvmsg(control, &message, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    const std::size_t num_fds = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < num_fds; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
      incoming.fds.emplace_back(fd);
    }
  }
  const std::string_view record(bytes, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  incoming.is_end = !ParseRequest(record, &incoming.request);
  return incoming;
}

class Zygote {
 public:
  Zygote(ZygoteSettings settings, const ForkHooks& hooks)
      : settings_(std::move(settings)),
        hooks_(hooks),
        slots_(settings_.scratch),
        oom_score_(settings_.oom_score) {
    if (settings_.has_pid_namespace) init_ = StartInit();
    sigset_t child_signal;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &child_signal, &usual_mask_) != 0)
      throw SystemError("block SIGCHLD");
    ends_ = Descriptor(signalfd(-1, &child_signal, SFD_NONBLOCK | SFD_CLOEXEC));
    if (!ends_) throw SystemError("signalfd");
  }

  // True in a child.
  bool Run() {
    const pid_t parent = getppid();
    while (is_open_) {
      pollfd waits[] = {{settings_.control, POLLIN, 0},
                        {ends_.get(), POLLIN, 0},
                        {settings_.trainer, POLLIN, 0},
                        {init_.lifeline.get(), POLLIN, 0}};
      const int count = poll(waits, 4, settings_.trainer < 0 ? kCheckParentMilliseconds : -1);
      if (count < 0 && errno != EINTR) throw SystemError("poll");
      if (waits[1].revents != 0) Reap();
      if (waits[2].revents != 0 || waits[3].revents != 0 || getppid() != parent) is_open_ = false;
      if (is_open_ && waits[0].revents != 0 && Serve()) return true;
    }
    EndAll();
    return false;
  }

 private:
  struct Living {
    std::uint32_t number;
    Slot slot;
    std::uint64_t promised_bytes;  // what it and its files may take
    bool was_killed = false;       // by us
  };

  // True in a child.
  bool Serve() {
    Incoming incoming = Receive(settings_.control);
    const Request& request = incoming.request;
    if (incoming.is_end) {
      is_open_ = false;
      return false;
    }
    if (request.ask == Ask::kFork) return Fork(request, incoming.fds);
    const auto found = pid_of_.find(request.child);
    if (found == pid_of_.end()) return false;
    if (request.ask == Ask::kKill) {
      living_.at(found->second).was_killed = true;
      kill(found->second, SIGKILL);
    } else if (settings_.has_limits) {
      LimitCpu(found->second, request.cpu_seconds);
    }
    return false;
  }

  bool Fork(const Request& request, const std::vector<Descriptor>& fds) {
    pid_t pid = -1;
    Slot slot;
    std::uint64_t promised_bytes = 0;
    try {
      if (fds.size() != 3) throw Error("a child without its descriptors");
      slot = slots_.Take(request.file_bytes);
      char statm[256];
      const ssize_t count = pread(settings_.statm, statm, sizeof(statm), 0);
      const MemoryUse use = ParseStatm({statm, count > 0 ? static_cast<std::size_t>(count) : 0},
                                       static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
      // What it shares with this process it may come to hold as a copy.
      promised_bytes = std::min(
          kBoundless, use.data_bytes + request.memory_bytes + request.file_bytes + kKernelBytes);
      if (settings_.cgroup != nullptr) settings_.cgroup->Allow(promised_bytes_ + promised_bytes);
      hooks_.before();
      oom_score_.BeforeFork();
      pid = fork();
      if (pid == 0) {
        BecomeChild(request, fds, slot, use);
        return true;
      }
      oom_score_.AfterFork();
      hooks_.after();
      if (pid < 0) throw SystemError("fork");
    } catch (const Error&) {
      if (!slot.path.empty()) slots_.GiveBack(std::move(slot));
      Say({Tell::kNotStarted, request.child});
      return false;
    }
    if (settings_.has_limits) LimitCpu(pid, request.cpu_seconds);
    promised_bytes_ += promised_bytes;
    living_.emplace(pid, Living{request.child, std::move(slot), promised_bytes});
    pid_of_[request.child] = pid;
    Say({Tell::kStarted, request.child, pid});
    return false;
  }

  void BecomeChild(const Request& request, const std::vector<Descriptor>& fds, const Slot& slot,
                   const MemoryUse& use) {
    try {
      if (dup2(fds[1].get(), 1) < 0 || dup2(fds[2].get(), 2) < 0 ||
          dup2(fds[0].get(), kChannel) < 0) {
        throw SystemError("place the descriptors");
      }
      if (chdir(slot.path.c_str()) != 0) throw SystemError("enter the scratch folder");
      if (sigprocmask(SIG_SETMASK, &usual_mask_, nullptr) != 0)
        throw SystemError("unblock signals");
      Hardening hardening;
      // Seen from its own namespace the zygote, which is outside, has no number.
      hardening.parent = settings_.has_pid_namespace ? 0 : zygote_;
      hardening.first_closed_fd = kChannel + 1;
      hardening.landlock_ruleset = slot.ruleset.get();
      hardening.policy = settings_.policy;
      hardening.has_limits = settings_.has_limits;
      hardening.limits = {use.address_space_bytes + request.memory_bytes,
                          use.data_bytes + request.memory_bytes,
                          request.file_bytes,
                          kStackBytes,
                          kOpenFiles,
                          settings_.counts_processes_apart ? kMaxTasks : 0};
      Harden(hardening);
    } catch (const std::exception& error) {  // nothing may run in a child that is not hardened
      const std::string text = std::string("hardening failed: ") + error.what();
      if (write(2, text.data(), text.size()) < 0) _exit(kNotHardened);
      _exit(kNotHardened);
    }
  }

  void Reap() {
    signalfd_siginfo told[8];
    while (read(ends_.get(), told, sizeof(told)) > 0) {
    }
    for (;;) {
      if (init_.is_gone()) {  // what the children died of is not their doing
        is_open_ = false;
        return;
      }
      int status = 0;
      rusage usage{};
      const pid_t pid = wait4(-1, &status, WNOHANG, &usage);
      if (pid <= 0) return;
      const auto found = living_.find(pid);
      if (found == living_.end()) continue;
      Notice notice{Tell::kExited, found->second.number, pid, status};
      const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
      };
      notice.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
      notice.peak_memory_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
      const bool fell_to_others =
          WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !found->second.was_killed;
      notice.ran_out_of_memory =
          fell_to_others && settings_.cgroup != nullptr && settings_.cgroup->TakeOomKill();
      Say(notice);
      pid_of_.erase(found->second.number);
      promised_bytes_ -= found->second.promised_bytes;
      Slot slot = std::move(found->second.slot);
      living_.erase(found);
      slots_.GiveBack(std::move(slot));
    }
  }

  // A supervisor that is gone is noticed where it is read from.
  void Say(const Notice& notice) { send(settings_.control, &notice, sizeof(notice), MSG_NOSIGNAL); }

  void EndAll() {
    for (const auto& [pid, child] : living_) kill(pid, SIGKILL);
    for (const auto& [pid, child] : living_) waitpid(pid, nullptr, 0);
    if (init_.pid > 0) {
      kill(init_.pid, SIGKILL);
      waitpid(init_.pid, nullptr, 0);
    }
    living_.clear();
    if (!settings_.scratch.has_mounts) RemoveTree(settings_.scratch.base);
  }

  ZygoteSettings settings_;
  const ForkHooks& hooks_;
  ScratchSlots slots_;
  OomScore oom_score_;
  const pid_t zygote_ = getpid();
  Init init_;
  sigset_t usual_mask_{};
  Descriptor ends_;
  std::unordered_map<pid_t, Living> living_;
  std::unordered_map<std::uint32_t, pid_t> pid_of_;
  std::uint64_t promised_bytes_ = 0;  // to all that live
  bool is_open_ = true;
};

}  // namespace

bool ServeZygote(ZygoteSettings settings, const ForkHooks& hooks) {
  return Zygote(std::move(settings), hooks).Run();
}

}  // namespace agentmath::sandbox
