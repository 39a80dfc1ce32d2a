#include "rollout/scheduler.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <utility>

#include "core/descriptor.h"
#include "core/error.h"
#include "rollout/ledger.h"

namespace agentmath::rollout {

// One lock for everything: calls take well under a microsecond.
struct Scheduler::Shared {
  explicit Shared(const Settings& settings) : ledger(settings) {}

  mutable std::mutex mutex;
  Ledger ledger;
  Descriptor wakeup;
  bool is_awake = false;  // the descriptor is readable

  void Wake() {
    if (!wakeup || is_awake) return;
    is_awake = true;
    const std::uint64_t one = 1;
    (void)!write(wakeup.get(), &one, sizeof one);
  }

  void Sleep() {
    if (!is_awake) return;
    is_awake = false;
    std::uint64_t count = 0;
    (void)!read(wakeup.get(), &count, sizeof count);
  }
};

namespace {

using Lock = std::lock_guard<std::mutex>;

}  // namespace

Scheduler::Scheduler(const Settings& settings) : shared_(std::make_unique<Shared>(settings)) {}

Scheduler::~Scheduler() = default;

void Scheduler::BeginRound(std::int64_t wanted, Time now) {
  Lock lock(shared_->mutex);
  shared_->ledger.Tick(now);
  shared_->ledger.BeginRound(wanted);
  shared_->Wake();
}

std::vector<Released> Scheduler::TakeGroups() {
  Lock lock(shared_->mutex);
  std::vector<Released> released = shared_->ledger.TakeGroups();
  shared_->Wake();
  return released;
}

std::vector<Id> Scheduler::Interrupt(Time now) {
  Lock lock(shared_->mutex);
  shared_->ledger.Tick(now);
  return shared_->ledger.Interrupt();
}

void Scheduler::SetVersion(std::int64_t version, Time now) {
  Lock lock(shared_->mutex);
  shared_->ledger.Tick(now);
  shared_->ledger.SetVersion(version);
  shared_->Wake();
}

bool Scheduler::EndStep() {
  Lock lock(shared_->mutex);
  return shared_->ledger.EndStep();
}

void Scheduler::CloseIntake() {
  Lock lock(shared_->mutex);
  shared_->ledger.CloseIntake();
  shared_->Wake();
}

void Scheduler::Submit(GroupId group, std::int64_t prompt_tokens, std::int64_t num_samples,
                       Time now) {
  Lock lock(shared_->mutex);
  shared_->ledger.Tick(now);
  shared_->ledger.Submit(group, prompt_tokens, num_samples);
  shared_->Wake();
}

void Scheduler::Resume(Id id, const View& where) {
  Lock lock(shared_->mutex);
  shared_->ledger.Resume(id, where);
}

Verdict Scheduler::Generated(Ticket ticket, const Generation& what, Time now) {
  Lock lock(shared_->mutex);
  shared_->ledger.Tick(now);
  const Verdict verdict = shared_->ledger.Generated(ticket, what);
  if (verdict.needs_decision) shared_->Wake();
  return verdict;
}

Verdict Scheduler::Answered(Ticket ticket, const Totals& totals, Time now) {
  Lock lock(shared_->mutex);
  shared_->ledger.Tick(now);
  const Verdict verdict = shared_->ledger.Answered(ticket, totals);
  if (verdict.needs_decision) shared_->Wake();
  return verdict;
}

Verdict Scheduler::Lost(Ticket ticket, const Totals& totals, bool owes_call, Time now) {
  Lock lock(shared_->mutex);
  shared_->ledger.Tick(now);
  const Verdict verdict = shared_->ledger.Lost(ticket, totals, owes_call);
  if (verdict.needs_decision) shared_->Wake();
  return verdict;
}

bool Scheduler::Cancel(Id id, Time now) {
  Lock lock(shared_->mutex);
  shared_->ledger.Tick(now);
  shared_->Wake();
  return shared_->ledger.Cancel(id);
}

bool Scheduler::CancelGroup(GroupId group, Time now) {
  Lock lock(shared_->mutex);
  shared_->ledger.Tick(now);
  shared_->Wake();
  return shared_->ledger.CancelGroup(group);
}

Decisions Scheduler::Decide(Time now, std::int64_t limit) {
  Lock lock(shared_->mutex);
  shared_->Sleep();
  shared_->ledger.Tick(now);
  return shared_->ledger.Decide(limit);
}

Time Scheduler::NextDeadline() const {
  Lock lock(shared_->mutex);
  return shared_->ledger.NextDeadline();
}

int Scheduler::WakeupFd() {
  Lock lock(shared_->mutex);
  if (!shared_->wakeup) {
    shared_->wakeup = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!shared_->wakeup) throw SystemError("cannot make an eventfd");
  }
  return shared_->wakeup.get();
}

void Scheduler::SetKvBudget(std::int64_t tokens) {
  Lock lock(shared_->mutex);
  shared_->ledger.SetKvBudget(tokens);
  shared_->Wake();
}

Settings Scheduler::settings() const {
  Lock lock(shared_->mutex);
  return shared_->ledger.settings();
}

std::int64_t Scheduler::version() const {
  Lock lock(shared_->mutex);
  return shared_->ledger.version();
}

std::int64_t Scheduler::stage() const {
  Lock lock(shared_->mutex);
  return shared_->ledger.stage();
}

void Scheduler::SetStage(std::int64_t stage) {
  Lock lock(shared_->mutex);
  shared_->ledger.SetStage(stage);
}

bool Scheduler::Contains(Id id) const {
  Lock lock(shared_->mutex);
  return shared_->ledger.Find(id) != nullptr;
}

View Scheduler::Look(Id id) const {
  Lock lock(shared_->mutex);
  return shared_->ledger.Look(id);
}

Stats Scheduler::GetStats() const {
  Lock lock(shared_->mutex);
  return shared_->ledger.GetStats();
}

std::vector<Transition> Scheduler::TakeLog() {
  Lock lock(shared_->mutex);
  return shared_->ledger.TakeLog();
}

std::string Scheduler::Dump(Time now) const {
  Lock lock(shared_->mutex);
  shared_->ledger.Tick(now);
  return shared_->ledger.Dump();
}

std::string Scheduler::Snapshot() const {
  Lock lock(shared_->mutex);
  return shared_->ledger.Snapshot();
}

void Scheduler::Restore(const std::string& bytes) {
  Lock lock(shared_->mutex);
  shared_->ledger.Restore(bytes);
  shared_->Wake();
}

}  // namespace agentmath::rollout
