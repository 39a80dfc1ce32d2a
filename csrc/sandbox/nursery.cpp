#include "sandbox/nursery.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "sandbox/cgroup.h"
#include "sandbox/scratch.h"
#include "sandbox/spawn.h"

namespace agentmath::sandbox {
namespace {

constexpr double kShortestCpuCheckSeconds = 0.002;
constexpr double kUnwatchedSeconds = 0.001;
constexpr double kMaxCoresAssumed = 4;
// In less time a block cannot fill memory to speak of, and asking for its peak would cost as much
// as the block.
constexpr double kNegligibleCpuSeconds = 0.001;
// How many more blocks a session may run before the kernel's limit must be raised again.
constexpr double kBlocksPerAllowance = 8;
constexpr int kLastWordsBytes = 2000;

struct Pair {
  Descriptor ours, theirs;
};

Pair MakeSocketPair(int type) {
  int ends[2];
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0)
    throw SystemError("sandbox: socketpair");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

Pair MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw SystemError("sandbox: pipe");
  Pair pipe{Descriptor(ends[0]), Descriptor(ends[1])};
  if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) throw SystemError("sandbox: pipe");
  return pipe;
}

std::uint64_t WholeSeconds(double seconds) {
  return static_cast<std::uint64_t>(std::ceil(std::min(seconds, 1e9)));
}

// Printed as people write it: 0.5, 2, 10.
std::string Plain(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", number);
  return text;
}

enum class Sent { kAll, kLater };

Sent SendRequest(int control, const Request& request, const std::vector<Descriptor>& fds) {
  iovec part{const_cast<Request*>(&request), sizeof(request)};
  alignas(cmsghdr) char space[CMSG_SPACE(3 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = space;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    for (std::size_t i = 0; i < fds.size(); ++i) {
      const int fd = fds[i].get();
      std::memcpy(CMSG_DATA(head) + i * sizeof(int), &fd, sizeof(int));
    }
  }
  const ssize_t count = sendmsg(control, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  // A zygote that is gone is noticed where it is read from. ETOOMANYREFS: descriptors in flight.
  const bool must_wait = count < 0 && (errno == EAGAIN || errno == EINTR || errno == ETOOMANYREFS);
  return must_wait ? Sent::kLater : Sent::kAll;
}

}  // namespace

Nursery::Nursery(Reactor* reactor, NurserySettings settings, Ends* ends)
    : reactor_(reactor), settings_(std::move(settings)), ends_(ends) {
  cpu_allowance_ = WholeSeconds(settings_.cpu_seconds) + 1;
  // Several threads use CPU time faster than the clock runs.
  num_cores_ =
      std::clamp(static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)), 1.0, kMaxCoresAssumed);
  Pair sockets = MakeSocketPair(SOCK_SEQPACKET);
  errors_ = Descriptor(memfd_create("agentmath-sandbox", MFD_CLOEXEC));
  if (!errors_) throw SystemError("sandbox: memfd_create");
  zygote_ =
      StartProcess({settings_.command, settings_.environment, sockets.theirs.get(), errors_.get()});
  control_ = std::move(sockets.ours);
  control_watch_ =
      reactor_->Add(control_.get(), [this](std::uint32_t events) { OnZygote(events); });
  start_timer_ = reactor_->After(kZygoteStartSeconds, [this] {
    if (!has_answered_) KillZygote();
  });
  send(control_.get(), settings_.setup.data(), settings_.setup.size(), MSG_NOSIGNAL);
}

Nursery::~Nursery() {
  reactor_->Cancel(start_timer_);
  for (const auto& [_, child] : children_) LetGo(child.get());
  BuryZygote();
}

Child* Nursery::Take(const Job& job) {
  const bool fits = job.bounds.memory_bytes == settings_.memory_bytes &&
                    job.bounds.file_bytes == settings_.file_bytes;
  Child* child = nullptr;
  if (fits && !parked_.empty()) {
    child = parked_.front();
    parked_.pop_front();
    child->is_parked = false;
  } else {
    child = Spawn(job.bounds.memory_bytes, job.bounds.file_bytes);
  }
  child->session = job.session;
  return child;
}

void Nursery::Refill() {
  try {
    while (!is_retired_ && parked_.size() < settings_.num_parked) {
      Child* child = Spawn(settings_.memory_bytes, settings_.file_bytes);
      child->is_parked = true;
      parked_.push_back(child);
    }
  } catch (const Error&) {
    return;  // jobs will make their own, or say why they cannot
  }
}

Child* Nursery::Spawn(std::uint64_t memory_bytes, std::uint64_t file_bytes) {
  Pair channel = MakeSocketPair(SOCK_STREAM);
  Pair out = MakePipe();
  Pair err = MakePipe();
  auto owned = std::make_unique<Child>();
  Child* child = owned.get();
  child->number = ++num_started_;
  child->nursery = this;
  child->channel = std::move(channel.ours);
  child->out_fd = std::move(out.ours);
  child->err_fd = std::move(err.ours);
  child->cpu_allowance = cpu_allowance_;
  child->channel_watch = reactor_->Add(
      child->channel.get(), [this, child](std::uint32_t events) { OnChannel(child, events); });
  children_[child->number] = std::move(owned);
  std::vector<Descriptor> fds;
  fds.push_back(std::move(channel.theirs));
  fds.push_back(std::move(out.theirs));
  fds.push_back(std::move(err.theirs));
  AskZygote(Ask::kFork, *child, memory_bytes, file_bytes, std::move(fds));
  return child;
}

void Nursery::Begin(Child* child, Job* job) {
  // Most blocks are over sooner, and then what they wrote is read once, at the end.
  child->watch_timer = reactor_->After(kUnwatchedSeconds, [this, child] {
    WatchOutput(child, child->out_fd, &child->out_watch);
    WatchOutput(child, child->err_fd, &child->err_watch);
  });
  child->Begin(job);
  const Bounds& bounds = job->bounds;
  const double needed = child->cpu_before + bounds.cpu_seconds;
  if (needed + 1 > static_cast<double>(child->cpu_allowance)) {
    child->cpu_allowance = WholeSeconds(needed + kBlocksPerAllowance * bounds.cpu_seconds) + 1;
    AskZygote(Ask::kAllowCpu, *child);
  }
  child->SendCommand();
  if (!child->unsent.empty()) reactor_->WantWrite(child->channel_watch, true);
  child->wall_timer = reactor_->After(bounds.wall_seconds, [this, child] {
    Kill(child, Status::kWallTimeout,
         "ran longer than " + Plain(child->job->bounds.wall_seconds) + " s");
  });
  child->cpu_timer =
      reactor_->After(bounds.cpu_seconds / num_cores_, [this, child] { OnCpuCheck(child); });
}

void Nursery::Kill(Child* child, Status status, const std::string& why) {
  if (child->killed_for) return;
  child->killed_for = status;
  child->why = why;
  AskZygote(Ask::kKill, *child);
  child->kill_timer = reactor_->After(kKillSeconds, [this] { KillZygote(); });
}

void Nursery::Retire() {
  is_retired_ = true;
  for (Child* child : parked_) Kill(child, Status::kCancelled, "its zygote was replaced");
}

void Nursery::HangUp() { shutdown(control_.get(), SHUT_WR); }

void Nursery::KillZygote() {
  if (zygote_ > 0) kill(zygote_, SIGKILL);
}

void Nursery::AskZygote(Ask ask, const Child& child, std::uint64_t memory_bytes,
                        std::uint64_t file_bytes, std::vector<Descriptor> fds) {
  unsent_.push_back(
      {{ask, child.number, child.cpu_allowance, memory_bytes, file_bytes}, std::move(fds)});
  if (unsent_.size() == 1) FlushRequests();
}

void Nursery::FlushRequests() {
  while (!unsent_.empty()) {
    if (SendRequest(control_.get(), unsent_.front().request, unsent_.front().fds) == Sent::kLater) {
      reactor_->WantWrite(control_watch_, true);
      return;
    }
    unsent_.pop_front();
  }
  reactor_->WantWrite(control_watch_, false);
}

void Nursery::OnZygote(std::uint32_t events) {
  if (events & EPOLLOUT) FlushRequests();
  char buffer[kMaxTextBytes];
  for (;;) {
    const ssize_t count = recv(control_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) break;
    const std::string_view message(buffer, static_cast<std::size_t>(count));
    Notice notice;
    if (!has_answered_) {
      Answer(message);
    } else if (ParseNotice(message, &notice)) {
      OnNotice(notice);
    }
  }
  BuryZygote();
  ends_->ZygoteGone(this, LastWords());  // may destroy this
}

void Nursery::Answer(std::string_view message) {
  has_answered_ = true;
  const Greeting greeting = ParseGreeting(message);
  is_ready_ = greeting.is_ready;
  scratch_folder_ = greeting.scratch_folder;
  if (is_ready_) Refill();
  ends_->ZygoteAnswered(this, is_ready_, greeting.text);
}

void Nursery::OnNotice(const Notice& notice) {
  const auto found = children_.find(notice.child);
  if (found == children_.end()) return;
  Child* child = found->second.get();
  if (notice.tell == Tell::kStarted) {
    child->pid = notice.pid;
  } else if (notice.tell == Tell::kExited) {
    Bury(child, notice);
  } else {
    if (child->job != nullptr) {
      EndBlock(child, {Status::kSandboxError, "the zygote could not fork a child"}, 0, 0);
    }
    Discard(child, "no process could be made for it");
  }
}

void Nursery::WatchOutput(Child* child, const Descriptor& fd, Reactor::Watch* watch) {
  if (*watch != Reactor::kNone) return;
  *watch = reactor_->Add(fd.get(), [this, child, &fd, watch](std::uint32_t) {
    if (!child->Read(fd)) {
      reactor_->Remove(watch);
    } else if (child->exceeds_output()) {
      KillForOutput(child);
    }
  });
}

void Nursery::KillForOutput(Child* child) {
  Kill(child, Status::kOutputLimit,
       "more than " + std::to_string(child->job->bounds.max_output_bytes()) + " bytes of output");
}

void Nursery::OnCpuCheck(Child* child) {
  const double limit = child->job->bounds.cpu_seconds;
  const double left = limit - (child->CpuSeconds() - child->cpu_before);
  if (left <= 0) {
    Kill(child, Status::kCpuTimeout, "used more than " + Plain(limit) + " s of CPU time");
    return;
  }
  const double pause = std::max(kShortestCpuCheckSeconds, left / num_cores_);
  child->cpu_timer = reactor_->After(pause, [this, child] { OnCpuCheck(child); });
}

void Nursery::OnChannel(Child* child, std::uint32_t events) {
  if (events & EPOLLOUT) {
    child->SendCommand();
    if (child->unsent.empty()) reactor_->WantWrite(child->channel_watch, false);
  }
  if (events & ~static_cast<std::uint32_t>(EPOLLOUT)) TakeReports(child);
}

Received Nursery::TakeReports(Child* child) {
  std::vector<Report> reports;
  Received received = Received::kEnd;
  try {
    received = child->Receive(&reports);
  } catch (const Error& error) {
    Kill(child, Status::kProtocolError, error.what());
  }
  if (received == Received::kEnd) reactor_->Remove(&child->channel_watch);
  for (Report& report : reports) {
    if (child->job == nullptr || child->report || report.sequence != child->sequence) {
      Kill(child, Status::kProtocolError, "a report that nobody waits for");
      return received;
    }
    child->report = std::move(report);
    if (child->session != 0 && !child->killed_for) FinishLive(child);
  }
  return received;
}

// A session's block is over and its process waits for the next.
void Nursery::FinishLive(Child* child) {
  child->Drain();
  if (child->exceeds_output()) {
    KillForOutput(child);
    return;
  }
  const double cpu_now = child->CpuSeconds();
  const double used = cpu_now - child->cpu_before;
  if (used > kNegligibleCpuSeconds || child->peak_memory_bytes == 0) child->ReadPeakMemory();
  EndBlock(child, OfLiveChild(*child->report), used, child->peak_memory_bytes);
  child->cpu_before = cpu_now;
}

void Nursery::StopWatching(Child* child) {
  reactor_->Cancel(child->watch_timer);
  reactor_->Cancel(child->wall_timer);
  reactor_->Cancel(child->cpu_timer);
  reactor_->Remove(&child->out_watch);
  reactor_->Remove(&child->err_watch);
}

void Nursery::LetGo(Child* child) {
  StopWatching(child);
  reactor_->Cancel(child->kill_timer);
  reactor_->Remove(&child->channel_watch);
}

void Nursery::EndBlock(Child* child, const Verdict& verdict, double cpu_seconds,
                       std::uint64_t peak_memory_bytes) {
  // What a session writes between blocks stays in its pipes until the next one.
  StopWatching(child);
  ends_->BlockEnded(child, verdict, cpu_seconds, peak_memory_bytes);
  child->job = nullptr;
  // Now and not at the start: a fork would keep the zygote from telling that the child is gone.
  Refill();
}

void Nursery::Bury(Child* child, const Notice& notice) {
  std::string why = child->killed_for ? std::string(Name(*child->killed_for)) + ": " + child->why
                                      : "the process ended between two blocks";
  if (notice.ran_out_of_memory == 1) why = "memory: " + std::string(kOutOfMemory);
  while (child->channel_watch != Reactor::kNone && !child->report) {
    if (TakeReports(child) != Received::kSomething) break;
  }
  if (child->job != nullptr) {
    child->Drain();
    if (child->exceeds_output()) KillForOutput(child);
    Verdict verdict;
    if (child->is_silent() && !child->killed_for) {
      verdict = {Status::kSandboxError, "the child never took its code: " + child->err.Text()};
    } else {
      End end;
      end.wait_status = notice.wait_status;
      end.cpu_seconds = std::max(0.0, notice.cpu_seconds - child->cpu_before);
      end.cpu_limit_seconds = child->job->bounds.cpu_seconds;
      end.killed_for = child->killed_for;
      end.why = child->why;
      end.ran_out_of_memory = notice.ran_out_of_memory == 1;
      verdict = OfDeadChild(end, child->report ? &*child->report : nullptr);
    }
    why = std::string(Name(verdict.status)) + ": " + verdict.error.value_or("");
    EndBlock(child, verdict, std::max(0.0, notice.cpu_seconds - child->cpu_before),
             notice.peak_memory_bytes);
  }
  Discard(child, why);
}

void Nursery::Discard(Child* child, const std::string& why) {
  if (child->is_parked) parked_.erase(std::find(parked_.begin(), parked_.end(), child));
  LetGo(child);
  ends_->ChildGone(child, why);
  children_.erase(child->number);
}

void Nursery::BuryZygote() {
  reactor_->Remove(&control_watch_);
  if (zygote_ <= 0) return;
  kill(zygote_, SIGKILL);  // it has closed its end or is to go
  while (waitpid(zygote_, nullptr, 0) < 0 && errno == EINTR) {
  }
  RemoveCgroup(std::exchange(zygote_, 0));
  try {
    if (!scratch_folder_.empty() && access(scratch_folder_.c_str(), F_OK) == 0) {
      RemoveTree(scratch_folder_);
    }
  } catch (const Error&) {
    return;  // a folder of nobody's interest is left; there is nobody to tell
  }
}

std::string Nursery::LastWords() const {
  char text[kLastWordsBytes];
  const off_t size = lseek(errors_.get(), 0, SEEK_END);
  const ssize_t count =
      pread(errors_.get(), text, sizeof(text), std::max<off_t>(0, size - kLastWordsBytes));
  return count > 0 ? std::string(text, static_cast<std::size_t>(count)) : "it said nothing";
}

}  // namespace agentmath::sandbox
