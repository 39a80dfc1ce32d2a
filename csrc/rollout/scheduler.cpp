#include "rollout/scheduler.h"

#include <algorithm>
#include <sstream>

#include "core/error.h"

namespace agentmath::rollout {
namespace {

constexpr std::size_t kMaxTransitions = 4096;

const char* Name(State state) {
  switch (state) {
    case State::kQueued:
      return "queued";
    case State::kRunning:
      return "running";
    case State::kTool:
      return "tool";
    case State::kParked:
      return "parked";
    case State::kDone:
      return "done";
    case State::kFailed:
      return "failed";
    case State::kCancelled:
      return "cancelled";
  }
  return "?";
}

bool HasEnded(State state) {
  return state == State::kDone || state == State::kFailed || state == State::kCancelled;
}

bool IsActive(State state) { return state == State::kRunning || state == State::kTool; }

std::string InWords(Key key) {
  return std::to_string(key / kSamplesPerGroup) + "/" + std::to_string(key % kSamplesPerGroup);
}

void Demand(bool holds, const std::string& otherwise) {
  if (!holds) throw Error(otherwise);
}

void Check(const Budgets& b) {
  Demand(b.sampled_tokens >= 1 && b.context_tokens >= 1 && b.segments >= 1,
         "a trajectory needs at least 1 sampled token, 1 context token and 1 segment");
  Demand(b.tool_calls >= 0 && b.segment_tokens >= 0 && b.segment_calls >= 0,
         "tool calls and the bounds of a segment must be 0 or more");
}

void Check(const Settings& s) {
  Demand(s.groups_per_step >= 1 && s.max_rounds >= 1, "a step needs at least 1 group and 1 round");
  Demand(s.groups_in_flight >= s.groups_per_step,
         "groups in flight (" + std::to_string(s.groups_in_flight) +
             ") must be at least the groups of a step (" + std::to_string(s.groups_per_step) + ")");
  Demand(s.max_lag >= 0 && s.kv_tokens >= 0, "the lag and the KV budget must be 0 or more");
}

}  // namespace

Scheduler::Scheduler(const Settings& settings, const Budgets& budgets)
    : settings_(settings), budgets_(budgets) {
  Check(settings_);
  Check(budgets_);
  if (settings_.max_lag == 0 && StopsEarly()) settings_.mode = Mode::kBatch;
}

void Scheduler::SetBudgets(const Budgets& budgets) {
  Check(budgets);
  budgets_ = budgets;
}

void Scheduler::Submit(std::int64_t group, const std::vector<History>& samples) {
  Demand(groups_.count(group) == 0, "group " + std::to_string(group) + " was submitted before");
  Demand(group >= 0 && !samples.empty() &&
             samples.size() <= static_cast<std::size_t>(kSamplesPerGroup),
         "a group has a number from 0 on and 1 to 65536 samples");
  Group& made = groups_[group];
  made.samples.resize(samples.size());
  made.unfinished = static_cast<std::int64_t>(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    made.samples[i].used = samples[i];
    queue_.insert(
        {samples[i].sampled_tokens == 0, group * kSamplesPerGroup + static_cast<std::int64_t>(i)});
  }
  ++num_unfinished_groups_;
  ++begun_;
}

std::vector<std::int64_t> Scheduler::Release() {
  std::vector<std::int64_t> ended;
  for (const auto& [number, group] : groups_)
    if (group.unfinished == 0) ended.push_back(number);
  for (const std::int64_t number : ended) groups_.erase(number);
  was_released_ = true;
  num_ended_groups_ = 0;
  return ended;
}

bool Scheduler::Cancel(std::int64_t group) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return false;
  for (std::size_t i = 0; i < found->second.samples.size(); ++i)
    End(group * kSamplesPerGroup + static_cast<std::int64_t>(i), State::kCancelled);
  return true;
}

void Scheduler::BeginStep(std::int64_t version) {
  Demand(num_active_ == 0 || settings_.mode == Mode::kAsync,
         "a step cannot begin while " + std::to_string(num_active_) + " trajectories run");
  Demand(version >= version_, "weight versions never go back: " + std::to_string(version) +
                                  " came after " + std::to_string(version_));
  version_ = version;
  kept_ = begun_ = 0;
  round_ = 1;
  was_released_ = false;
  interrupted_ = false;
  QueueParked();
}

void Scheduler::Credit(std::int64_t kept) {
  Demand(kept >= 0, "no fewer than 0 groups can be kept");
  kept_ += kept;
}

void Scheduler::BeginRound() {
  if (StopsEarly() || !was_released_) return;
  Demand(num_active_ == 0,
         "a round cannot begin while " + std::to_string(num_active_) + " trajectories run");
  ++round_;
  was_released_ = false;
  QueueParked();
}

void Scheduler::QueueParked() {
  for (auto& [number, group] : groups_) {
    for (std::size_t i = 0; i < group.samples.size(); ++i) {
      Trajectory& t = group.samples[i];
      if (t.state != State::kParked) continue;
      const Key key = number * kSamplesPerGroup + static_cast<std::int64_t>(i);
      Move(key, t, State::kQueued);
      queue_.insert({t.used.sampled_tokens == 0, key});
    }
  }
}

std::int64_t Scheduler::NumWanted() const {
  const std::int64_t under_way = kept_ + num_ended_groups_ + num_unfinished_groups_;
  std::int64_t wanted = settings_.groups_per_step - under_way;
  if (StopsEarly()) {
    const std::int64_t consumable = (settings_.max_lag + 1) * settings_.groups_per_step - under_way;
    const std::int64_t drawable = settings_.max_rounds * settings_.groups_per_step +
                                  settings_.groups_in_flight - settings_.groups_per_step - begun_;
    wanted = std::min({settings_.groups_in_flight - num_unfinished_groups_, consumable, drawable});
    if (interrupted_) wanted = 0;
  } else if (round_ > settings_.max_rounds) {
    wanted = 0;
  }
  return std::max<std::int64_t>(wanted, 0);
}

std::vector<Key> Scheduler::Admit() {
  std::vector<Key> admitted;
  while (!queue_.empty() && !interrupted_) {
    const Key key = queue_.begin()->second;
    Trajectory& t = groups_.at(key / kSamplesPerGroup).samples[key % kSamplesPerGroup];
    const bool fits =
        settings_.kv_tokens == 0 || active_context_ + t.used.context_tokens <= settings_.kv_tokens;
    // Something always runs: a context beyond the budget is tried alone.
    if (!fits && num_active_ > 0) break;
    queue_.erase(queue_.begin());
    t.pass_tokens = t.pass_calls = 0;
    Move(key, t, State::kRunning);
    admitted.push_back(key);
  }
  return admitted;
}

bool Scheduler::IsRoundOver() const {
  if (IsIdle() || (interrupted_ && num_active_ == 0)) return true;
  if (!StopsEarly()) return false;
  return num_ended_groups_ >= std::max<std::int64_t>(1, settings_.groups_per_step - kept_);
}

bool Scheduler::IsStepOver() const {
  const bool has_enough = kept_ >= settings_.groups_per_step;
  if (StopsEarly()) return (has_enough && !AnyMustFinish()) || (IsIdle() && NumWanted() == 0);
  return IsIdle() && was_released_ && (has_enough || round_ >= settings_.max_rounds);
}

std::vector<Key> Scheduler::Interrupt() {
  interrupted_ = true;
  std::vector<Key> active;
  for (const auto& [number, group] : groups_)
    for (std::size_t i = 0; i < group.samples.size(); ++i)
      if (IsActive(group.samples[i].state))
        active.push_back(number * kSamplesPerGroup + static_cast<std::int64_t>(i));
  return active;
}

bool Scheduler::IsFresh(std::int64_t oldest_version) const {
  return oldest_version == kNoVersion || version_ - oldest_version <= settings_.max_lag;
}

bool Scheduler::AnyMustFinish() const {
  for (const auto& [number, group] : groups_) {
    if (group.unfinished == 0) continue;
    for (const Trajectory& t : group.samples)
      for (const std::int64_t version : {t.used.oldest_version, t.asked_version})
        if (version != kNoVersion && version_ - version >= settings_.max_lag) return true;
  }
  return false;
}

Allowance Scheduler::Ask(Key key, std::int64_t context_tokens) {
  Trajectory& t = Active(key);
  const Budgets& b = budgets_;
  const std::int64_t room =
      std::min(b.sampled_tokens - t.used.sampled_tokens, b.context_tokens - context_tokens);
  if (room <= 0) return {0, Allowance::Bound::kLength};
  if (interrupted_) return {0, Allowance::Bound::kSegment};
  t.asked_version = version_;
  const bool is_bounded = settings_.mode == Mode::kSegments && t.used.segments + 1 < b.segments;
  std::int64_t pass = room;
  if (is_bounded && b.segment_calls > 0 && t.pass_calls >= b.segment_calls)
    pass = 0;
  else if (is_bounded && b.segment_tokens > 0)
    pass = b.segment_tokens - t.pass_tokens;
  if (pass < room) return {std::max<std::int64_t>(pass, 0), Allowance::Bound::kSegment};
  return {room, Allowance::Bound::kLength};
}

bool Scheduler::MayCall(Key key) const { return Active(key).used.tool_calls < budgets_.tool_calls; }

void Scheduler::Sampled(Key key, std::int64_t tokens, std::int64_t oldest_version) {
  Trajectory& t = Active(key);
  Demand(tokens >= 0, "trajectory " + InWords(key) + ": no fewer than 0 tokens can be sampled");
  t.used.sampled_tokens += tokens;
  t.used.context_tokens += tokens;
  t.pass_tokens += tokens;
  active_context_ += tokens;
  t.asked_version = kNoVersion;
  if (tokens == 0 || oldest_version == kNoVersion) return;
  const bool is_first = t.used.oldest_version == kNoVersion;
  t.used.oldest_version =
      is_first ? oldest_version : std::min(t.used.oldest_version, oldest_version);
}

void Scheduler::Inserted(Key key, std::int64_t tokens) {
  Trajectory& t = Active(key);
  Demand(tokens >= 0, "trajectory " + InWords(key) + ": no fewer than 0 tokens can be inserted");
  t.used.context_tokens += tokens;
  active_context_ += tokens;
}

void Scheduler::CallBegan(Key key) {
  Trajectory& t = Active(key);
  Demand(t.state == State::kRunning, "trajectory " + InWords(key) + " waits for a tool already");
  Move(key, t, State::kTool);
}

void Scheduler::CallEnded(Key key) {
  Trajectory& t = Active(key);
  Demand(t.state == State::kTool, "trajectory " + InWords(key) + " waits for no tool");
  ++t.used.tool_calls;
  ++t.pass_calls;
  Move(key, t, State::kRunning);
}

void Scheduler::Park(Key key) {
  Trajectory& t = Active(key);
  ++t.used.segments;
  t.asked_version = kNoVersion;
  Move(key, t, State::kParked);
}

void Scheduler::End(Key key, State outcome) {
  Demand(HasEnded(outcome), "a trajectory ends as done, failed or cancelled");
  const auto found = groups_.find(key / kSamplesPerGroup);
  if (found == groups_.end()) return;
  Group& group = found->second;
  const std::size_t sample = static_cast<std::size_t>(key % kSamplesPerGroup);
  if (sample >= group.samples.size() || HasEnded(group.samples[sample].state)) return;
  Trajectory& t = group.samples[sample];
  if (t.state == State::kQueued) queue_.erase({t.used.sampled_tokens == 0, key});
  if (IsActive(t.state)) ++t.used.segments;
  t.asked_version = kNoVersion;
  Move(key, t, outcome);
  if (--group.unfinished == 0) {
    --num_unfinished_groups_;
    ++num_ended_groups_;
  }
}

State Scheduler::StateOf(Key key) const { return Find(key).state; }

History Scheduler::HistoryOf(Key key) const { return Find(key).used; }

std::vector<Key> Scheduler::Unfinished() const {
  std::vector<Key> keys;
  for (const auto& [number, group] : groups_)
    for (std::size_t i = 0; i < group.samples.size(); ++i)
      if (!HasEnded(group.samples[i].state))
        keys.push_back(number * kSamplesPerGroup + static_cast<std::int64_t>(i));
  return keys;
}

std::string Scheduler::Dump() const {
  std::ostringstream out;
  out << "version " << version_ << ", " << kept_ << " of " << settings_.groups_per_step
      << " groups kept, " << num_unfinished_groups_ << " unfinished, " << num_ended_groups_
      << " ended and not released; " << num_active_ << " trajectories run with " << active_context_
      << " tokens of context, " << queue_.size() << " are queued\n";
  for (const auto& [number, group] : groups_) {
    out << "group " << number << ":";
    for (const Trajectory& t : group.samples)
      out << " " << Name(t.state) << "(" << t.used.sampled_tokens << " sampled, "
          << t.used.tool_calls << " calls, " << t.used.segments << " segments)";
    out << "\n";
  }
  return out.str();
}

const Scheduler::Trajectory& Scheduler::Find(Key key) const {
  const auto found = groups_.find(key / kSamplesPerGroup);
  const std::size_t sample = static_cast<std::size_t>(key % kSamplesPerGroup);
  Demand(key >= 0 && found != groups_.end() && sample < found->second.samples.size(),
         "trajectory " + InWords(key) + " is not known: it was never submitted, or released");
  return found->second.samples[sample];
}

const Scheduler::Trajectory& Scheduler::Active(Key key) const {
  const Trajectory& t = Find(key);
  Demand(IsActive(t.state), "trajectory " + InWords(key) + " does not run: it is " + Name(t.state));
  return t;
}

Scheduler::Trajectory& Scheduler::Active(Key key) {
  return const_cast<Trajectory&>(static_cast<const Scheduler&>(*this).Active(key));
}

void Scheduler::Move(Key key, Trajectory& t, State to) {
  const bool was = IsActive(t.state), is = IsActive(to);
  if (was != is) {
    num_active_ += is ? 1 : -1;
    active_context_ += is ? t.used.context_tokens : -t.used.context_tokens;
  }
  transitions_.push_back({sequence_++, key, t.state, to});
  if (transitions_.size() > kMaxTransitions) transitions_.pop_front();
  t.state = to;
}

}  // namespace agentmath::rollout
