// How a round goes: how many groups are wanted, who is admitted, when it is over, what is released.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "rollout/ledger.h"

namespace agentmath::rollout {
namespace {

constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

}  // namespace

void Ledger::BeginRound(std::int64_t wanted) {
  if (wanted < 0) {
    throw std::invalid_argument("a round of " + std::to_string(wanted) + " groups: give 0 or more");
  }
  is_round_open_ = true;
  is_over_told_ = is_closing_ = false;
  wanted_ = wanted;
  intake_ = std::max<std::int64_t>(wanted - static_cast<std::int64_t>(groups_.size()), 0);
  round_deadline_ = settings_.round_nanoseconds > 0 ? now_ + settings_.round_nanoseconds : 0;
  const std::vector<Id> parked(parked_.begin(), parked_.end());
  for (Id id : parked) Move(At(id), State::kQueued, Reason::kNone);
}

std::vector<Id> Ledger::Interrupt() {
  is_closing_ = true;
  std::vector<Id> waiting, active;
  for (const Place& place : queue_) waiting.push_back(place.second);
  for (Id id : waiting) Park(At(id), Reason::kInterrupted);
  for (const auto& ticket : tickets_) active.push_back(ticket.second);
  std::sort(active.begin(), active.end());
  return active;
}

void Ledger::SetVersion(std::int64_t version) {
  if (version < version_) {
    throw std::invalid_argument("weights of version " + std::to_string(version) +
                                " cannot follow version " + std::to_string(version_));
  }
  version_ = version;
}

bool Ledger::EndStep() {
  if (num_step_done_ == 0) return false;
  rates_.push_back(static_cast<double>(num_step_truncated_) / static_cast<double>(num_step_done_));
  num_step_done_ = num_step_truncated_ = 0;
  const auto window = static_cast<std::size_t>(settings_.window_steps);
  if (rates_.size() > window) rates_.pop_front();
  if (rates_.size() < window || stage_ + 1 == static_cast<std::int64_t>(settings_.stages.size())) {
    return false;
  }
  double sum = 0;
  for (double rate : rates_) sum += rate;
  if (sum / static_cast<double>(window) <= settings_.truncation_rate) return false;
  SetStage(stage_ + 1);
  return true;
}

void Ledger::SetStage(std::int64_t stage) {
  const auto count = static_cast<std::int64_t>(settings_.stages.size());
  if (stage < 0 || stage >= count) {
    throw std::invalid_argument("stage " + std::to_string(stage) + " of " + std::to_string(count) +
                                ": give the index of a stage");
  }
  stage_ = stage;
  rates_.clear();
}

void Ledger::SetKvBudget(std::int64_t tokens) {
  if (tokens < 0) {
    throw std::invalid_argument("a budget of " + std::to_string(tokens) +
                                " tokens: give 0 or more");
  }
  settings_.kv_budget_tokens = tokens;
}

bool Ledger::EndsByCount() const {
  return settings_.mode == Mode::kQuota || settings_.mode == Mode::kAsync;
}

// Whether a round takes in what it wants and no more.
bool Ledger::HasFixedIntake() const {
  return !EndsByCount() || (settings_.mode == Mode::kQuota && settings_.over_submission <= 1);
}

std::int64_t Ledger::NumInFlight() const {
  return static_cast<std::int64_t>(groups_.size() - ready_.size());
}

std::int64_t Ledger::NumActive() const { return static_cast<std::int64_t>(tickets_.size()); }

std::int64_t Ledger::NumOpen() const {
  return NumActive() + static_cast<std::int64_t>(queue_.size() + parked_.size());
}

// Groups that can be trained on before one that begins now is too old.
std::int64_t Ledger::NumSlots() const {
  if (settings_.max_lag < 0) return kUnbounded;
  return (is_round_open_ ? wanted_ : 0) + settings_.max_lag * settings_.groups_per_step;
}

std::int64_t Ledger::NumWanted() const {
  if (is_closing_ || is_intake_closed_) return 0;
  if (HasFixedIntake()) return is_round_open_ ? intake_ : 0;
  const auto live = static_cast<std::int64_t>(groups_.size());
  std::int64_t wanted = kUnbounded;
  if (settings_.mode == Mode::kQuota) {
    if (!is_round_open_) return 0;
    const double share = settings_.over_submission * static_cast<double>(settings_.groups_per_step);
    wanted = static_cast<std::int64_t>(std::ceil(share - 1e-9)) - NumInFlight();
  } else if (settings_.max_in_flight > 0) {
    wanted = (settings_.max_in_flight - NumOpen()) / settings_.group_size;
    if (NumOpen() == 0) wanted = std::max<std::int64_t>(wanted, 1);
  }
  if (settings_.max_lag >= 0) wanted = std::min(wanted, NumSlots() - live);
  return std::max<std::int64_t>(wanted, 0);
}

// What must be released now since the rounds that are left before it is too old, with
// groups_per_step groups each, would not reach all of it: earliest deadline first, as long as a
// schedule exists.
Ledger::Due Ledger::GetDue() const {
  Due due;
  if (settings_.max_lag < 0) return due;
  std::int64_t num_groups = 0, num_ready = 0;
  for (const auto& [age, cohort] : cohorts_) {
    num_groups += cohort.num_groups;
    num_ready += cohort.num_ready;
    const std::int64_t later = std::max<std::int64_t>(age + settings_.max_lag - version_, 0);
    const std::int64_t needed = num_groups - later * settings_.groups_per_step;
    due.num_groups = std::max(due.num_groups, needed);
    due.num_missing = std::max(due.num_missing, needed - num_ready);
  }
  return due;
}

bool Ledger::IsRoundOver() const {
  if (!is_round_open_) return false;
  const bool is_fed = is_intake_closed_ || NumWanted() == 0;
  if (!EndsByCount()) return is_fed && queue_.empty() && tickets_.empty();
  if (NumInFlight() == 0 && is_fed) return true;
  return static_cast<std::int64_t>(ready_.size()) >= wanted_ && GetDue().num_missing == 0;
}

void Ledger::CutOverdue() {
  if (static_cast<std::int64_t>(ready_.size()) < wanted_) return;
  std::vector<Id> overdue;
  std::int64_t left = GetDue().num_missing;
  for (auto place = aged_.begin(); left > 0; ++place, --left) {
    for (const Trajectory& t : groups_.at(place->second).samples) {
      if (!IsEnd(t.state) && !t.is_cut) overdue.push_back(t.id);
    }
  }
  for (Id id : overdue) {
    Trajectory* t = At(id);
    const bool is_active = IsActive(t->state);
    const bool has_begun = is_active || t->totals.sampled_tokens > 0;
    if (settings_.overdue == Overdue::kCancel || !has_begun) {
      Cancel(id);
    } else if (is_active) {
      t->is_cut = true;
      interrupts_.push_back(id);
    } else {
      End(t, State::kDone, Reason::kOverdue);
      ended_.push_back({id, t->state, t->reason});
    }
  }
}

void Ledger::ExpireTickets() {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
    const Id id = tickets_.at(deadlines_.begin()->second);
    Trajectory* t = At(id);
    t->owes_call = t->state == State::kTool;
    interrupts_.push_back(id);
    if (GiveUp(t, Reason::kLate).action == Action::kEnd) {
      ended_.push_back({id, t->state, t->reason});
    }
  }
}

bool Ledger::HasRoomFor(const Trajectory& t) const {
  if (tickets_.empty()) return true;
  if (settings_.max_running > 0 && NumActive() >= settings_.max_running) return false;
  return settings_.kv_budget_tokens == 0 ||
         stats_.num_bound_tokens + t.totals.context_tokens <= settings_.kv_budget_tokens;
}

// Strictly in line: what does not fit is not overtaken, so nobody starves.
void Ledger::Admit(std::int64_t limit, Decisions* decisions) {
  while (!queue_.empty()) {
    Trajectory* t = At(queue_.begin()->second);
    if (!HasRoomFor(*t)) return;
    if (limit > 0 && static_cast<std::int64_t>(decisions->grants.size()) >= limit) {
      decisions->has_more_grants = true;
      return;
    }
    ++t->num_grants;
    const Verdict verdict = t->owes_call ? Ask(t, Action::kCall) : GoOn(t);
    if (verdict.ticket != 0) {
      decisions->grants.push_back({t->id, verdict});
    } else if (verdict.action == Action::kEnd) {
      ended_.push_back({t->id, t->state, t->reason});
    }
  }
}

Decisions Ledger::Decide(std::int64_t limit) {
  Decisions decisions;
  ExpireTickets();
  if (is_round_open_ && EndsByCount() && settings_.overdue != Overdue::kWait) CutOverdue();
  decisions.round_is_over = IsRoundOver();
  const bool is_news = decisions.round_is_over && !is_over_told_;
  is_over_told_ = decisions.round_is_over;
  const bool goes_on =
      settings_.mode == Mode::kAsync ? !is_news : is_round_open_ && !decisions.round_is_over;
  if (goes_on) {
    Admit(limit, &decisions);
    decisions.num_groups_wanted = NumWanted();
    // What had no room to begin with ended at once, which may have been the last.
    if (!decisions.round_is_over && !ended_.empty()) decisions.round_is_over = IsRoundOver();
    is_over_told_ = decisions.round_is_over;
  }
  decisions.round_is_late =
      is_round_open_ && !decisions.round_is_over && round_deadline_ > 0 && now_ >= round_deadline_;
  decisions.interrupts.swap(interrupts_);
  decisions.ended.swap(ended_);
  return decisions;
}

Time Ledger::NextDeadline() const {
  Time next = is_round_open_ ? round_deadline_ : 0;
  if (!deadlines_.empty() && (next == 0 || deadlines_.begin()->first < next)) {
    next = deadlines_.begin()->first;
  }
  return next;
}

std::vector<Released> Ledger::TakeGroups() {
  std::vector<Released> released;
  if (!IsRoundOver()) return released;
  std::int64_t due = GetDue().num_groups;
  for (const Place& place : std::vector<Place>(ready_.begin(), ready_.end())) {
    const bool is_wanted =
        !EndsByCount() || static_cast<std::int64_t>(released.size()) < wanted_ || due > 0;
    if (!is_wanted) break;
    const Group& group = groups_.at(place.second);
    Released one;
    one.group = group.id;
    one.oldest_version = group.oldest_version;
    for (const Trajectory& t : group.samples) {
      --stats_.num_in_state[static_cast<std::size_t>(t.state)];
      one.num_failed += t.state == State::kFailed;
      one.num_cancelled += t.state == State::kCancelled;
      if (t.state != State::kDone) continue;
      ++one.num_done;
      one.num_truncated += t.reason != Reason::kFinished;
    }
    if (group.oldest_version != kNoVersion) {
      --due;
      stats_.max_lag_seen = std::max(stats_.max_lag_seen, version_ - group.oldest_version);
    }
    Leave(group);
    num_step_done_ += one.num_done;
    num_step_truncated_ += one.num_truncated;
    ++stats_.num_groups_released;
    groups_.erase(one.group);
    released.push_back(one);
  }
  is_round_open_ = false;
  return released;
}

Stats Ledger::GetStats() const {
  Stats stats = stats_;
  stats.num_groups_in_flight = NumInFlight();
  stats.num_groups_ready = static_cast<std::int64_t>(ready_.size());
  stats.num_overdue_groups = GetDue().num_groups;
  return stats;
}

}  // namespace agentmath::rollout
