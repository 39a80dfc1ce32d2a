// The state of a ledger as JSON, for people.
#include <cstdio>

#include "rollout/ledger.h"

namespace agentmath::rollout {
namespace {

constexpr const char* kStates[] = {"new",    "queued", "running", "tool",
                                   "parked", "done",   "failed",  "cancelled"};
constexpr const char* kReasons[] = {"none",    "finished",    "length",   "max_tool_calls",
                                    "segment", "interrupted", "overdue",  "lost",
                                    "late",    "cancelled",   "restarted"};
constexpr const char* kModes[] = {"batch", "segments", "quota", "async"};

std::string Field(const char* name, std::int64_t value) {
  return std::string("\"") + name + "\": " + std::to_string(value);
}

std::string Field(const char* name, const char* value) {
  return std::string("\"") + name + "\": \"" + value + '"';
}

std::string Field(const char* name, bool value) {
  return std::string("\"") + name + "\": " + (value ? "true" : "false");
}

std::string Seconds(const char* name, Time nanoseconds) {
  char text[64];
  std::snprintf(text, sizeof text, "\"%s\": %.3f", name, static_cast<double>(nanoseconds) * 1e-9);
  return text;
}

std::string Line(const Trajectory& t, Time now) {
  const std::int64_t sample = t.id - (GroupOf(t.id) << kSampleBits);
  return "{" + Field("group", GroupOf(t.id)) + ", " + Field("sample", sample) + ", " +
         Field("state", kStates[static_cast<int>(t.state)]) + ", " +
         Seconds("for_seconds", now - t.since) + ", " +
         Field("why", kReasons[static_cast<int>(t.reason)]) + ", " +
         Field("context_tokens", t.totals.context_tokens) + ", " +
         Field("sampled_tokens", t.totals.sampled_tokens) + ", " +
         Field("tool_calls", t.num_tool_calls) + ", " + Field("segments", t.num_segments) + ", " +
         Field("retries", t.num_retries) + ", " + Field("oldest_version", t.oldest_version) + "}";
}

}  // namespace

std::string Ledger::Dump() const {
  const Stats stats = GetStats();
  std::string counts;
  for (int i = 0; i < kNumStates; ++i) {
    counts += (i ? ", " : "") + Field(kStates[i], stats.num_in_state[static_cast<std::size_t>(i)]);
  }
  std::string out = "{" + Field("mode", kModes[static_cast<int>(settings_.mode)]) + ", " +
                    Field("version", version_) + ", " + Field("stage", stage_) +
                    ",\n \"round\": {" + Field("is_open", is_round_open_) + ", " +
                    Field("is_over", IsRoundOver()) + ", " + Field("groups_wanted", wanted_) +
                    ", " + Field("groups_ready", stats.num_groups_ready) + ", " +
                    Field("groups_in_flight", stats.num_groups_in_flight) + ", " +
                    Field("groups_due", stats.num_overdue_groups) + "},\n \"trajectories\": {" +
                    counts + "},\n " + Field("bound_tokens", stats.num_bound_tokens) + ", " +
                    Field("late_reports", static_cast<std::int64_t>(stats.num_late_reports)) +
                    ",\n \"unfinished\": [";
  const char* between = "\n  ";
  for (const auto& item : groups_) {
    for (const Trajectory& t : item.second.samples) {
      if (IsEnd(t.state)) continue;
      out += between + Line(t, now_);
      between = ",\n  ";
    }
  }
  return out + "]}\n";
}

}  // namespace agentmath::rollout
