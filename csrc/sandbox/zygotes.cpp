// The dispatcher's care for its zygotes: starting, choosing, replacing.
#include <algorithm>
#include <utility>

#include "core/error.h"
#include "sandbox/dispatcher.h"

namespace agentmath::sandbox {
namespace {

constexpr int kMaxStillborn = 3;

}  // namespace

std::unique_ptr<Nursery> Dispatcher::MakeZygote(const Kind& kind) {
  Ends* const ends = this;
  return std::make_unique<Nursery>(&reactor_, kind.sort.settings, ends);
}

// A wrong guess costs an import. Sessions live long and may import later what they do not name now.
Dispatcher::Kind& Dispatcher::KindFor(const Job& job) {
  for (std::size_t i = 1; i < kinds_.size(); ++i) {
    Kind& kind = kinds_[i];
    const bool is_at_hand = job.session != 0 && kind.current != nullptr;
    if (is_at_hand || Mentions(job.code, kind.sort.modules)) return kind;
  }
  return kinds_.front();
}

// Children of one zygote share its address layout and its memory's history: not for ever.
void Dispatcher::Recycle() {
  for (Kind& kind : kinds_) {
    for (const auto& nursery : kind.retired) {
      if (nursery->num_busy() == 0) nursery->HangUp();
    }
    const bool is_worn = kind.current != nullptr && kind.current->is_ready() &&
                         kind.current->num_forked() >= settings_.forks_per_zygote;
    if (!is_worn || kind.successor != nullptr || is_ending_) continue;
    try {
      kind.successor = MakeZygote(kind);
    } catch (const Error&) {
      continue;  // the old one serves on; the next sweep tries again
    }
  }
}

std::unique_ptr<Nursery>* Dispatcher::Find(const Nursery* nursery, Kind** kind) {
  for (Kind& candidate : kinds_) {
    *kind = &candidate;
    if (candidate.current.get() == nursery) return &candidate.current;
    if (candidate.successor.get() == nursery) return &candidate.successor;
    for (auto& retired : candidate.retired) {
      if (retired.get() == nursery) return &retired;
    }
  }
  throw Error("sandbox: a zygote that nobody keeps");
}

std::vector<Nursery*> Dispatcher::AllNurseries() const {
  std::vector<Nursery*> all;
  for (const Kind& kind : kinds_) {
    if (kind.current != nullptr) all.push_back(kind.current.get());
    if (kind.successor != nullptr) all.push_back(kind.successor.get());
    for (const auto& nursery : kind.retired) all.push_back(nursery.get());
  }
  return all;
}

void Dispatcher::ZygoteAnswered(Nursery* nursery, bool is_ready, const std::string& text) {
  if (!is_ready) {
    Fail("the sandbox process cannot start: " + text);
    return;
  }
  Kind* kind = nullptr;
  std::unique_ptr<Nursery>* place = Find(nursery, &kind);
  kind->num_stillborn = 0;
  if (place == &kind->successor) {
    kind->current->Retire();
    kind->retired.push_back(std::exchange(kind->current, std::move(kind->successor)));
  }
  queue_.insert(queue_.begin(), kind->waiting.begin(), kind->waiting.end());
  kind->waiting.clear();
  if (has_greeted_) return;
  has_greeted_ = true;
  Result ready;
  ready.event = Event::kReady;
  ready.text = text;
  mailbox_->Publish(std::move(ready));
}

void Dispatcher::ZygoteGone(Nursery* nursery, const std::string& last_words) {
  Kind* kind = nullptr;
  std::unique_ptr<Nursery>* place = Find(nursery, &kind);
  const bool was_current = place == &kind->current;
  if (!nursery->is_ready()) ++kind->num_stillborn;
  TakeBack(nursery);
  const std::unique_ptr<Nursery> dead = std::move(*place);
  kind->retired.erase(std::remove(kind->retired.begin(), kind->retired.end(), nullptr),
                      kind->retired.end());
  if (!was_current || is_ending_ || !failure_.empty()) return;
  if (kind->num_stillborn >= kMaxStillborn) {
    Fail("the sandbox process ended before it was ready: " + last_words);
    return;
  }
  try {
    kind->current = kind->successor != nullptr ? std::move(kind->successor) : MakeZygote(*kind);
  } catch (const Error& error) {
    Fail(error.what());
  }
}

// What a dead zygote's children ran is repeated elsewhere where it can be, once.
void Dispatcher::TakeBack(Nursery* nursery) {
  for (auto& [_, session] : sessions_) {
    if (session.nursery != nursery) continue;
    session.nursery = nullptr;
    session.child = nullptr;
    session.is_busy = false;
    queue_.insert(queue_.begin(), session.waiting.begin(), session.waiting.end());
    session.waiting.clear();
    if (session.has_state && !session.ended) {
      session.ended = "the sandbox process died and took the session's state with it";
      session.is_our_fault = true;
    }
  }
  std::vector<Job*> orphans;
  for (const auto& [_, job] : jobs_) {
    if (job->child != nullptr && job->child->nursery == nursery) orphans.push_back(job.get());
  }
  for (Job* job : orphans) {
    --num_running_;
    job->child = nullptr;
    const auto session = sessions_.find(job->session);
    if (session != sessions_.end() && session->second.ended) {
      Answer(job, {Status::kSandboxError, *session->second.ended});
    } else if (job->is_answered || job->attempts >= kMaxAttempts) {
      Answer(job, {Status::kSandboxError, "the sandbox process died twice under this call"});
    } else {
      queue_.push_front(job->number);
    }
  }
  std::vector<std::uint64_t> closed;
  for (const auto& [name, session] : sessions_) {
    if (session.child != nullptr || session.closers.empty()) continue;
    for (const std::uint64_t number : session.closers) SayClosed(number);
    closed.push_back(name);
  }
  for (const std::uint64_t name : closed) sessions_.erase(name);
}

void Dispatcher::Fail(const std::string& why) {
  if (!failure_.empty()) return;
  failure_ = why;
  SayFailed(0);
  std::vector<Job*> jobs;
  for (const auto& [_, job] : jobs_) jobs.push_back(job.get());
  for (Job* job : jobs) {
    SayFailed(job->number);
    job->is_answered = true;
    if (job->child == nullptr) {
      Answer(job, {});
    } else {
      job->child->nursery->Kill(job->child, Status::kCancelled, why);
    }
  }
}

}  // namespace agentmath::sandbox
