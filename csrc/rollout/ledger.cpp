// How a trajectory moves: reports in, verdicts out.
#include "rollout/ledger.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace agentmath::rollout {
namespace {

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostSamples = std::int64_t{1} << kSampleBits;
constexpr GroupId kMostGroups = std::int64_t{1} << 46;

bool IsWaiting(State state) { return state == State::kNew || state == State::kQueued; }

bool IsTruncation(Reason reason) {
  return reason == Reason::kLength || reason == Reason::kMaxToolCalls || reason == Reason::kOverdue;
}

std::int64_t Age(const Trajectory& t) {
  if (t.oldest_version != kNoVersion) return t.oldest_version;
  return t.state == State::kRunning ? t.ticket_version : kNoVersion;
}

void DemandCounts(std::int64_t a, std::int64_t b) {
  if (a >= 0 && b >= 0) return;
  throw std::invalid_argument("token counts " + std::to_string(a) + " and " + std::to_string(b) +
                              ": give 0 or more");
}

std::int64_t Lower(std::int64_t a, std::int64_t b) {
  if (a == kNoVersion || b == kNoVersion) return std::max(a, b);
  return std::min(a, b);
}

}  // namespace

Ledger::Ledger(const Settings& settings) : settings_(settings) { Check(settings); }

void Ledger::Tick(Time now) { now_ = std::max(now_, now); }

void Ledger::Submit(GroupId group, std::int64_t prompt_tokens, std::int64_t num_samples) {
  if (group <= last_group_ || group >= kMostGroups) {
    throw std::invalid_argument("group " + std::to_string(group) + ": ids rise, the last one was " +
                                std::to_string(last_group_));
  }
  if (num_samples < 1 || num_samples > kMostSamples) {
    throw std::invalid_argument("group " + std::to_string(group) + " has " +
                                std::to_string(num_samples) + " samples: give 1 to 65536");
  }
  DemandCounts(prompt_tokens, 0);
  if (settings_.kv_budget_tokens > 0 && prompt_tokens > settings_.kv_budget_tokens) {
    throw std::invalid_argument("group " + std::to_string(group) + ": a prompt of " +
                                std::to_string(prompt_tokens) + " tokens never fits into " +
                                std::to_string(settings_.kv_budget_tokens));
  }
  last_group_ = group;
  Group& made = groups_[group];
  made.id = group;
  made.num_open = num_samples;
  made.samples.resize(static_cast<std::size_t>(num_samples));
  for (std::int64_t i = 0; i < num_samples; ++i) {
    Trajectory& t = made.samples[static_cast<std::size_t>(i)];
    t.id = IdOf(group, i);
    t.totals.context_tokens = prompt_tokens;
    t.since = now_;
    queue_.insert(QueuePlace(t));
  }
  stats_.num_in_state[static_cast<std::size_t>(State::kNew)] += num_samples;
  stats_.num_submitted += static_cast<std::uint64_t>(num_samples);
  if (intake_ > 0) --intake_;
}

void Ledger::Resume(Id id, const View& where) {
  Trajectory* t = At(id);
  if (t == nullptr || t->state != State::kNew) {
    throw std::invalid_argument("trajectory " + std::to_string(id) +
                                " is not new: resume it right after it was submitted");
  }
  DemandCounts(where.totals.context_tokens, where.totals.sampled_tokens);
  DemandCounts(where.num_tool_calls, where.num_segments);
  queue_.erase(QueuePlace(*t));
  t->totals = where.totals;
  t->num_tool_calls = where.num_tool_calls;
  t->num_segments = where.num_segments;
  t->oldest_version = where.oldest_version;
  t->newest_version = where.newest_version;
  queue_.insert(QueuePlace(*t));
  SetAge(&GroupOfTrajectory(*t));
}

Verdict Ledger::Generated(Ticket ticket, const Generation& what) {
  DemandCounts(what.totals.context_tokens, what.totals.sampled_tokens);
  DemandCounts(what.sampled_tokens, 0);
  Trajectory* t = Open(ticket, State::kRunning);
  if (t == nullptr) return {};
  CloseTicket(t);
  SetTotals(t, what.totals);
  t->pass_sampled_tokens += what.sampled_tokens;
  t->oldest_version = Lower(t->oldest_version, what.oldest_version);
  t->newest_version = std::max(t->newest_version, what.newest_version);
  t->ticket_version = kNoVersion;
  SetAge(&GroupOfTrajectory(*t));
  switch (what.outcome) {
    case Outcome::kFinished:
      return End(t, State::kDone, Reason::kFinished);
    case Outcome::kLength:
      if (!t->ends_pass) return End(t, State::kDone, Reason::kLength);
      return t->is_cut ? End(t, State::kDone, Reason::kOverdue) : Park(t, Reason::kSegment);
    case Outcome::kCall:
      if (t->is_cut) return End(t, State::kDone, Reason::kOverdue);
      if (t->num_tool_calls >= budgets().max_tool_calls) {
        return End(t, State::kDone, Reason::kMaxToolCalls);
      }
      return Ask(t, Action::kCall);
    case Outcome::kContinue:
    case Outcome::kAborted:
      break;
  }
  return GoOn(t);
}

Verdict Ledger::Answered(Ticket ticket, const Totals& totals) {
  DemandCounts(totals.context_tokens, totals.sampled_tokens);
  Trajectory* t = Open(ticket, State::kTool);
  if (t == nullptr) return {};
  CloseTicket(t);
  SetTotals(t, totals);
  t->owes_call = false;
  ++t->num_tool_calls;
  ++t->pass_tool_calls;
  return GoOn(t);
}

Verdict Ledger::Lost(Ticket ticket, const Totals& totals, bool owes_call) {
  DemandCounts(totals.context_tokens, totals.sampled_tokens);
  Trajectory* t = Open(ticket, owes_call ? State::kTool : State::kNew);
  if (t == nullptr) return {};
  SetTotals(t, totals);
  t->owes_call = owes_call;
  return GiveUp(t, Reason::kLost);
}

bool Ledger::Cancel(Id id) {
  Trajectory* t = At(id);
  if (t == nullptr || IsEnd(t->state)) return false;
  if (IsActive(t->state)) interrupts_.push_back(id);
  CloseTicket(t);
  End(t, State::kCancelled, Reason::kCancelled);
  ended_.push_back({id, t->state, t->reason});
  return true;
}

bool Ledger::CancelGroup(GroupId group) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return false;
  bool any = false;
  for (const Trajectory& t : found->second.samples) any = Cancel(t.id) || any;
  return any;
}

Trajectory* Ledger::At(Id id) {
  const auto found = groups_.find(GroupOf(id));
  if (found == groups_.end()) return nullptr;
  const auto index = static_cast<std::size_t>(id & (kMostSamples - 1));
  return index < found->second.samples.size() ? &found->second.samples[index] : nullptr;
}

const Trajectory* Ledger::Find(Id id) const { return const_cast<Ledger*>(this)->At(id); }

// The trajectory that the ticket is for; nullptr when the ticket is no longer valid. `wanted` is
// the state it must be in; kNew accepts both.
Trajectory* Ledger::Open(Ticket ticket, State wanted) {
  if (ticket == 0 || ticket >= next_ticket_) {
    throw std::invalid_argument("ticket " + std::to_string(ticket) + " was never given");
  }
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) {
    ++stats_.num_late_reports;
    return nullptr;
  }
  Trajectory* t = At(found->second);
  if (wanted != State::kNew && t->state != wanted) {
    throw std::invalid_argument("ticket " + std::to_string(ticket) + " is for " +
                                (t->state == State::kTool ? "a tool" : "an engine") +
                                ": report what became of that");
  }
  return t;
}

void Ledger::CloseTicket(Trajectory* t) {
  if (t->ticket == 0) return;
  tickets_.erase(t->ticket);
  if (t->deadline != 0) deadlines_.erase({t->deadline, t->ticket});
  t->ticket = 0;
  t->deadline = 0;
}

void Ledger::SetTotals(Trajectory* t, const Totals& totals) {
  if (IsActive(t->state)) {
    stats_.num_bound_tokens += totals.context_tokens - t->totals.context_tokens;
  }
  t->totals = totals;
}

Ledger::Place Ledger::QueuePlace(const Trajectory& t) const {
  const std::int64_t age = groups_.at(GroupOf(t.id)).oldest_version;
  return {age == kNoVersion ? kUnbounded : age, t.id};
}

// Samples of a group wait in line by the age of the group, since it is what decides when they are
// due.
void Ledger::SetAge(Group* group) {
  std::int64_t age = kNoVersion;
  for (const Trajectory& t : group->samples) age = Lower(age, Age(t));
  if (age == group->oldest_version) return;
  std::vector<const Trajectory*> waiting;
  for (const Trajectory& t : group->samples) {
    if (IsWaiting(t.state) && queue_.erase(QueuePlace(t)) > 0) waiting.push_back(&t);
  }
  Leave(*group);
  group->oldest_version = age;
  Join(*group);
  for (const Trajectory* t : waiting) queue_.insert(QueuePlace(*t));
}

// Puts a group among those of its age, and among those that are ready.
void Ledger::Join(const Group& group) {
  const Place place = {group.oldest_version, group.id};
  if (group.num_open == 0) ready_.insert(place);
  if (group.oldest_version == kNoVersion) return;
  Cohort& cohort = cohorts_[group.oldest_version];
  ++cohort.num_groups;
  cohort.num_ready += group.num_open == 0;
  if (group.num_open > 0) aged_.insert(place);
}

void Ledger::Leave(const Group& group) {
  const Place place = {group.oldest_version, group.id};
  ready_.erase(place);
  aged_.erase(place);
  if (group.oldest_version == kNoVersion) return;
  const auto cohort = cohorts_.find(group.oldest_version);
  cohort->second.num_ready -= group.num_open == 0;
  if (--cohort->second.num_groups == 0) cohorts_.erase(cohort);
}

void Ledger::Move(Trajectory* t, State to, Reason reason) {
  const State from = t->state;
  ++stats_.num_transitions;
  if (settings_.log_capacity > 0) {
    if (log_.size() == static_cast<std::size_t>(settings_.log_capacity)) log_.pop_front();
    log_.push_back({stats_.num_transitions, now_, t->id, from, to, reason});
  }
  if (IsWaiting(from)) queue_.erase(QueuePlace(*t));
  if (from == State::kParked) parked_.erase(t->id);
  if (IsWaiting(to)) queue_.insert(QueuePlace(*t));
  if (to == State::kParked) parked_.insert(t->id);
  stats_.num_bound_tokens += (static_cast<int>(IsActive(to)) - static_cast<int>(IsActive(from))) *
                             t->totals.context_tokens;
  --stats_.num_in_state[static_cast<std::size_t>(from)];
  ++stats_.num_in_state[static_cast<std::size_t>(to)];
  t->state = to;
  t->reason = reason;
  t->since = now_;
}

Verdict Ledger::End(Trajectory* t, State end, Reason reason) {
  if (IsActive(t->state)) ++t->num_segments;
  Move(t, end, reason);
  Group& group = GroupOfTrajectory(*t);
  SetAge(&group);
  Leave(group);
  --group.num_open;
  Join(group);
  if (end == State::kDone) ++stats_.num_done;
  if (end == State::kDone && IsTruncation(reason)) ++stats_.num_truncated;
  if (end == State::kFailed) ++stats_.num_failed;
  if (end == State::kCancelled) ++stats_.num_cancelled;
  return {Action::kEnd, reason, 0, 0, false, true};
}

Verdict Ledger::Park(Trajectory* t, Reason reason) {
  if (IsActive(t->state)) ++t->num_segments;
  t->pass_sampled_tokens = t->pass_tool_calls = 0;
  Move(t, State::kParked, reason);
  SetAge(&GroupOfTrajectory(*t));
  return {Action::kPark, reason, 0, 0, false, true};
}

Verdict Ledger::Queue(Trajectory* t, Reason reason) {
  Move(t, State::kQueued, reason);
  SetAge(&GroupOfTrajectory(*t));
  return {Action::kQueue, reason, 0, 0, false, true};
}

// A failure of engine or tool: again, or not any more.
Verdict Ledger::GiveUp(Trajectory* t, Reason reason) {
  CloseTicket(t);
  t->ticket_version = kNoVersion;
  if (t->is_cut) return End(t, State::kDone, Reason::kOverdue);
  if (t->num_retries >= settings_.max_retries) return End(t, State::kFailed, reason);
  ++t->num_retries;
  ++stats_.num_retries;
  return is_closing_ ? Park(t, reason) : Queue(t, reason);
}

Verdict Ledger::Ask(Trajectory* t, Action action) {
  const bool is_call = action == Action::kCall;
  Move(t, is_call ? State::kTool : State::kRunning, Reason::kNone);
  t->ticket = next_ticket_++;
  tickets_.emplace(t->ticket, t->id);
  const std::int64_t patience =
      is_call ? settings_.tool_nanoseconds : settings_.request_nanoseconds;
  if (patience > 0) {
    t->deadline = now_ + patience;
    deadlines_.insert({t->deadline, t->ticket});
  }
  if (!is_call) t->ticket_version = version_;
  SetAge(&GroupOfTrajectory(*t));
  Verdict verdict;
  verdict.action = action;
  verdict.ticket = t->ticket;
  return verdict;
}

// Let the model speak, unless something ends the trajectory or its pass.
Verdict Ledger::GoOn(Trajectory* t) {
  if (t->is_cut) return End(t, State::kDone, Reason::kOverdue);
  const std::int64_t room = Room(*t);
  if (room <= 0) return End(t, State::kDone, Reason::kLength);
  if (is_closing_) return Park(t, Reason::kInterrupted);
  const std::int64_t pass_room = PassRoom(*t);
  if (pass_room <= 0) return Park(t, Reason::kSegment);
  Verdict verdict = Ask(t, Action::kGenerate);
  verdict.max_new_tokens = std::min(room, pass_room);
  verdict.ends_pass = t->ends_pass = pass_room < room;
  return verdict;
}

std::int64_t Ledger::Room(const Trajectory& t) const {
  return std::min(budgets().max_sampled_tokens - t.totals.sampled_tokens,
                  budgets().max_context_tokens - t.totals.context_tokens);
}

// The last pass has no bound of its own.
std::int64_t Ledger::PassRoom(const Trajectory& t) const {
  if (settings_.mode != Mode::kSegments || t.num_segments + 1 >= budgets().max_segments) {
    return kUnbounded;
  }
  if (settings_.segment_tool_calls > 0 && t.pass_tool_calls >= settings_.segment_tool_calls) {
    return 0;
  }
  if (settings_.segment_sampled_tokens == 0) return kUnbounded;
  return settings_.segment_sampled_tokens - t.pass_sampled_tokens;
}

View Ledger::Look(Id id) const {
  const Trajectory* t = Find(id);
  if (t == nullptr) throw std::invalid_argument("trajectory " + std::to_string(id) + " is unknown");
  return {t->id,           t->state,       t->reason,         t->totals,         t->num_tool_calls,
          t->num_segments, t->num_retries, t->oldest_version, t->newest_version, t->ticket};
}

std::vector<Transition> Ledger::TakeLog() {
  std::vector<Transition> taken(log_.begin(), log_.end());
  log_.clear();
  return taken;
}

}  // namespace agentmath::rollout
