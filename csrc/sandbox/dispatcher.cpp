#include "sandbox/dispatcher.h"

#include <cctype>
#include <cstdio>
#include <utility>

#include "core/error.h"

namespace agentmath::sandbox {
namespace {

constexpr double kSweepSeconds = 1;
constexpr double kEndSeconds = 10;
constexpr double kRepeatSeconds = 0.05;

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool Mentions(const std::string& code, const std::string& name) {
  for (std::size_t at = code.find(name); at != std::string::npos; at = code.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    const bool starts = at == 0 || !IsWordCharacter(code[at - 1]);
    const bool ends = end == code.size() || !IsWordCharacter(code[end]);
    if (starts && ends) return true;
  }
  return false;
}

Verdict Just(Status status, const std::string& error) { return {status, error}; }

}  // namespace

bool Mentions(const std::string& code, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (Mentions(code, name)) return true;
  }
  return false;
}

Dispatcher::Dispatcher(DispatcherSettings settings, Mailbox* mailbox)
    : settings_(std::move(settings)), mailbox_(mailbox) {
  for (ZygoteKind& sort : settings_.kinds) kinds_.emplace_back().sort = std::move(sort);
  reactor_.Add(mailbox_->orders_fd(), [this](std::uint32_t) { OnOrders(); });
  reactor_.After(kSweepSeconds, [this] { Sweep(); });
  kinds_.front().current = MakeZygote(kinds_.front());
}

void Dispatcher::Run() {
  while (!is_ending_ || !AllNurseries().empty()) {
    reactor_.RunOnce();
    Admit();
  }
}

void Dispatcher::OnOrders() {
  for (Order& order : mailbox_->TakeOrders()) {
    switch (order.want) {
      case Want::kRun:
        Accept(std::move(order));
        break;
      case Want::kCancel:
        Cancel(order.number);
        break;
      case Want::kOpenSession:
        sessions_[order.number];
        break;
      case Want::kCloseSession:
        Close(order.number, order.session);
        break;
      case Want::kEnd:
        End();
        break;
    }
  }
}

void Dispatcher::Accept(Order order) {
  if (!failure_.empty()) {
    SayFailed(order.number);
    return;
  }
  auto owned = std::make_unique<Job>();
  Job* job = owned.get();
  job->number = order.number;
  job->code = std::move(order.execution.code);
  job->input = std::move(order.execution.input);
  job->bounds = order.execution.bounds;
  job->session = order.execution.session;
  job->seed = order.execution.seed;
  job->received = Now();
  jobs_[job->number] = std::move(owned);
  queue_.push_back(job->number);
  job->queue_timer = reactor_.After(settings_.queue_seconds, [this, job] {
    char text[64];
    std::snprintf(text, sizeof(text), "no worker was free within %g s", settings_.queue_seconds);
    Answer(job, Just(Status::kQueueTimeout, text));
  });
}

void Dispatcher::Cancel(std::uint64_t number) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return;
  Job* job = found->second.get();
  if (job->child != nullptr) {
    job->child->nursery->Kill(job->child, Status::kCancelled, "cancelled by the caller");
  } else {
    Answer(job, Just(Status::kCancelled, "cancelled by the caller"));
  }
}

void Dispatcher::SayClosed(std::uint64_t number) {
  Result closed;
  closed.number = number;
  closed.event = Event::kSessionClosed;
  mailbox_->Publish(std::move(closed));
}

void Dispatcher::SayFailed(std::uint64_t number) {
  Result failed;
  failed.number = number;
  failed.event = Event::kFailed;
  failed.text = failure_;
  mailbox_->Publish(std::move(failed));
}

void Dispatcher::Close(std::uint64_t number, std::uint64_t name) {
  std::vector<Job*> unstarted;
  for (const auto& [_, job] : jobs_) {
    if (job->session == name && job->child == nullptr) unstarted.push_back(job.get());
  }
  for (Job* job : unstarted) Answer(job, Just(Status::kCancelled, "the session was closed"));
  const auto found = sessions_.find(name);
  if (found != sessions_.end() && found->second.child != nullptr) {
    found->second.closers.push_back(number);
    Child* child = found->second.child;
    child->nursery->Kill(child, Status::kCancelled, "the session was closed");
    return;
  }
  sessions_.erase(name);
  SayClosed(number);
}

void Dispatcher::End() {
  is_ending_ = true;
  Fail("the sandbox is closed");
  for (Nursery* nursery : AllNurseries()) {
    if (nursery->is_ready()) {
      nursery->HangUp();
    } else {
      nursery->KillZygote();
    }
  }
  reactor_.After(kEndSeconds, [this] {
    for (Nursery* nursery : AllNurseries()) nursery->KillZygote();
  });
}

void Dispatcher::Admit() {
  while (!queue_.empty() && num_running_ < settings_.num_workers) {
    const auto found = jobs_.find(queue_.front());
    queue_.pop_front();
    if (found == jobs_.end()) continue;  // cancelled, or out of patience
    Job* job = found->second.get();
    if (job->session == 0) {
      Assign(job);
    } else {
      AssignToSession(job);
    }
  }
}

void Dispatcher::AssignToSession(Job* job) {
  const auto found = sessions_.find(job->session);
  if (found == sessions_.end()) {
    Answer(job, Just(Status::kSessionLost, "there is no such session"));
    return;
  }
  Session& session = found->second;
  if (session.ended) {
    const Status status = session.is_our_fault ? Status::kSandboxError : Status::kSessionLost;
    Answer(job, Just(status, *session.ended));
  } else if (session.is_busy) {
    session.waiting.push_back(job->number);
  } else if (session.child != nullptr) {
    Start(job, session.nursery, &session);
  } else {
    Assign(job);
  }
}

void Dispatcher::Assign(Job* job) {
  Kind& kind = KindFor(*job);
  if (kind.current != nullptr && kind.current->is_ready()) {
    Start(job, kind.current.get(), job->session == 0 ? nullptr : &sessions_[job->session]);
    return;
  }
  kind.waiting.push_back(job->number);
  if (kind.current != nullptr) return;
  try {
    kind.current = MakeZygote(kind);
  } catch (const Error& error) {
    Fail(error.what());
  }
}

void Dispatcher::Start(Job* job, Nursery* nursery, Session* session) {
  Child* child = session != nullptr ? session->child : nullptr;
  try {
    if (child == nullptr) child = nursery->Take(*job);
  } catch (const Error& error) {
    Answer(job, Just(Status::kSandboxError, error.what()));
    return;
  }
  if (session != nullptr) {
    session->nursery = nursery;
    session->child = child;
    session->is_busy = true;
  }
  reactor_.Cancel(job->queue_timer);
  ++job->attempts;
  ++num_running_;
  nursery->Begin(child, job);
}

void Dispatcher::Answer(Job* job, const Verdict& verdict, double cpu_seconds,
                        std::uint64_t peak_memory_bytes) {
  reactor_.Cancel(job->queue_timer);
  if (job->is_answered) {
    jobs_.erase(job->number);
    return;
  }
  const double now = Now();
  Result result;
  result.number = job->number;
  result.verdict = verdict;
  result.queue_seconds = (job->started > 0 ? job->started : now) - job->received;
  result.wall_seconds = job->started > 0 ? now - job->started : 0;
  result.cpu_seconds = cpu_seconds;
  result.peak_memory_bytes = peak_memory_bytes;
  if (job->child != nullptr) {
    result.out = job->child->out.Text();
    result.err = job->child->err.Text();
    result.out_bytes = job->child->out.total_bytes();
    result.err_bytes = job->child->err.total_bytes();
  }
  mailbox_->Publish(std::move(result));
  jobs_.erase(job->number);
}

// Code that never ran, for no fault of its own.
bool Dispatcher::CanRepeat(const Job& job, const Verdict& verdict) const {
  const auto session = sessions_.find(job.session);
  const bool has_state = session != sessions_.end() && session->second.has_state;
  return verdict.status == Status::kSandboxError && job.attempts < kMaxAttempts && !has_state &&
         !job.is_answered && !is_ending_;
}

void Dispatcher::BlockEnded(Child* child, const Verdict& verdict, double cpu_seconds,
                            std::uint64_t peak_memory_bytes) {
  --num_running_;
  const std::uint64_t name = child->job->session;
  const auto found = sessions_.find(name);
  if (CanRepeat(*child->job, verdict)) {
    if (found != sessions_.end()) {
      found->second.is_busy = false;
      found->second.child = nullptr;
      child->session = 0;
    }
    child->job->child = nullptr;
    // Not at once: what failed may be about to be replaced.
    reactor_.After(kRepeatSeconds,
                   [this, number = child->job->number] { queue_.push_front(number); });
    return;
  }
  Answer(child->job, verdict, cpu_seconds, peak_memory_bytes);
  if (name == 0 || found == sessions_.end()) return;
  Session& session = found->second;
  session.is_busy = false;
  session.has_state = true;
  if (!session.waiting.empty()) {
    queue_.push_front(session.waiting.front());
    session.waiting.pop_front();
  }
}

void Dispatcher::ChildGone(Child* child, const std::string& why) {
  const auto found = sessions_.find(child->session);
  if (child->session == 0 || found == sessions_.end()) return;
  Session& session = found->second;
  session.child = nullptr;
  session.ended = "the session ended: " + why;
  // Those that waited for a block which killed the session are to be told so.
  queue_.insert(queue_.begin(), session.waiting.begin(), session.waiting.end());
  session.waiting.clear();
  if (session.closers.empty()) return;
  for (const std::uint64_t number : session.closers) SayClosed(number);
  sessions_.erase(found);
}

// Threads left behind by a block may not compute for free until the next one.
void Dispatcher::Sweep() {
  for (const auto& [_, session] : sessions_) {
    Child* child = session.child;
    if (child == nullptr || session.is_busy) continue;
    if (child->CpuSeconds() - child->cpu_before > settings_.idle_cpu_seconds) {
      child->nursery->Kill(child, Status::kSessionLost, "it went on computing between its blocks");
    }
  }
  Recycle();
  reactor_.After(kSweepSeconds, [this] { Sweep(); });
}

}  // namespace agentmath::sandbox
