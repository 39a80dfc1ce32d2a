// A ledger as bytes and back: a mark, a digest of what follows, and 64-bit numbers in fixed order.
#include <cstring>
#include <stdexcept>

#include "rollout/ledger.h"

namespace agentmath::rollout {
namespace {

constexpr char kMark[] = "agentmath rollout 1\n";
constexpr std::size_t kMarkBytes = sizeof kMark - 1;

// FNV-1a over the numbers' bytes: against damage, not against malice.
std::uint64_t Digest(const char* bytes, std::size_t count) {
  std::uint64_t digest = 14695981039346656037u;
  for (std::size_t i = 0; i < count; ++i) {
    digest = (digest ^ static_cast<unsigned char>(bytes[i])) * 1099511628211u;
  }
  return digest;
}

class Writer {
 public:
  template <typename Number>
  void operator()(const Number& value) {
    static_assert(sizeof(Number) <= 8);
    char bytes[8] = {};
    std::memcpy(bytes, &value, sizeof value);
    out_.append(bytes, sizeof bytes);
  }

  std::string Take() {
    std::string whole(kMark, kMarkBytes);
    const std::uint64_t digest = Digest(out_.data(), out_.size());
    whole.append(reinterpret_cast<const char*>(&digest), sizeof digest);
    return whole + out_;
  }

 private:
  std::string out_;
};

[[noreturn]] void Refuse() {
  throw std::invalid_argument(
      "the state of the rollouts is damaged or comes from another version of agentmath: resume "
      "from "
      "an older checkpoint, or with the version that wrote it");
}

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {
    std::uint64_t digest = 0;
    at_ = kMarkBytes + sizeof digest;
    if (bytes.size() < at_ || bytes.compare(0, kMarkBytes, kMark) != 0) Refuse();
    std::memcpy(&digest, bytes.data() + kMarkBytes, sizeof digest);
    if (digest != Digest(bytes.data() + at_, bytes.size() - at_)) Refuse();
  }

  template <typename Number>
  void operator()(Number& value) {
    if (bytes_.size() - at_ < 8) Refuse();
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += 8;
  }

  bool is_at_end() const { return at_ == bytes_.size(); }

 private:
  const std::string& bytes_;
  std::size_t at_ = 0;
};

// The same walk writes and reads, so that the two cannot differ.
template <typename Visit, typename T>
void VisitTrajectory(Visit& visit, T& t) {
  visit(t.id), visit(t.state), visit(t.reason);
  visit(t.totals.context_tokens), visit(t.totals.sampled_tokens);
  visit(t.num_tool_calls), visit(t.num_segments), visit(t.num_retries), visit(t.num_grants);
  visit(t.oldest_version), visit(t.newest_version);
  visit(t.pass_sampled_tokens), visit(t.pass_tool_calls);
  visit(t.owes_call), visit(t.since);
}

template <typename Visit, typename S>
void VisitStats(Visit& visit, S& s) {
  visit(s.num_transitions), visit(s.num_late_reports), visit(s.num_retries);
  visit(s.num_submitted), visit(s.num_done), visit(s.num_truncated), visit(s.num_failed);
  visit(s.num_cancelled), visit(s.num_groups_released), visit(s.max_lag_seen);
}

}  // namespace

std::string Ledger::Snapshot() const {
  Writer write;
  write(now_), write(version_), write(stage_), write(num_step_done_), write(num_step_truncated_);
  write(is_intake_closed_), write(last_group_), write(next_ticket_);
  write(rates_.size());
  for (double rate : rates_) write(rate);
  VisitStats(write, stats_);
  write(groups_.size());
  for (const auto& [id, group] : groups_) {
    write(id), write(group.samples.size());
    for (const Trajectory& t : group.samples) VisitTrajectory(write, t);
  }
  return write.Take();
}

void Ledger::Restore(const std::string& bytes) {
  Reader read(bytes);
  Ledger fresh(settings_);
  fresh.settings_ = settings_;
  read(fresh.now_), read(fresh.version_), read(fresh.stage_);
  read(fresh.num_step_done_), read(fresh.num_step_truncated_);
  read(fresh.is_intake_closed_), read(fresh.last_group_), read(fresh.next_ticket_);
  std::size_t count = 0;
  read(count);
  for (; count > 0; --count) read(fresh.rates_.emplace_back());
  VisitStats(read, fresh.stats_);
  read(count);
  for (; count > 0; --count) {
    GroupId id = 0;
    std::size_t num_samples = 0;
    read(id), read(num_samples);
    if (num_samples == 0 || num_samples > bytes.size()) Refuse();
    Group& group = fresh.groups_[id];
    group.id = id;
    group.samples.resize(num_samples);
    for (Trajectory& t : group.samples) VisitTrajectory(read, t);
    fresh.Adopt(&group);
  }
  const auto num_stages = static_cast<std::int64_t>(settings_.stages.size());
  if (!read.is_at_end() || fresh.stage_ < 0 || fresh.stage_ >= num_stages) Refuse();
  *this = std::move(fresh);
}

// Puts a group that was read where it belongs; what was under way is parked, and its ticket is
// late.
void Ledger::Adopt(Group* group) {
  for (Trajectory& t : group->samples) {
    const bool is_known = t.state <= State::kCancelled && t.reason <= Reason::kRestarted;
    if (!is_known || GroupOf(t.id) != group->id) Refuse();
    ++stats_.num_in_state[static_cast<std::size_t>(t.state)];
    if (IsActive(t.state)) stats_.num_bound_tokens += t.totals.context_tokens;
    group->num_open += !IsEnd(t.state);
  }
  Join(*group);
  for (Trajectory& t : group->samples) {
    if (t.state == State::kParked) parked_.insert(t.id);
    if (!IsEnd(t.state) && t.state != State::kParked) Move(&t, State::kParked, Reason::kRestarted);
  }
  SetAge(group);
}

}  // namespace agentmath::rollout
