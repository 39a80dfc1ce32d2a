// What goes into a scheduler and comes out of it: ids, counts and reasons, no text.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace agentmath::rollout {

// A group is the samples of one task; group ids never come twice and never fall.
using GroupId = std::int64_t;
// A trajectory: its group's id << 16 | its index in the group.
using Id = std::int64_t;
// One request to an engine or one call of a tool; never 0.
using Ticket = std::uint64_t;
// Nanoseconds of whatever clock the caller has; one that goes backwards stands still.
using Time = std::int64_t;

constexpr std::int64_t kNoVersion = -1;
constexpr int kSampleBits = 16;

constexpr Id IdOf(GroupId group, std::int64_t sample) { return group << kSampleBits | sample; }
constexpr GroupId GroupOf(Id id) { return id >> kSampleBits; }

enum class State : std::uint8_t {
  kNew,        // submitted, never begun
  kQueued,     // goes on as soon as it is admitted
  kRunning,    // an engine works on it
  kTool,       // a tool works for it
  kParked,     // goes on in a later round
  kDone,       // ended; to be trained on
  kFailed,     // ended by a failure of the infrastructure
  kCancelled,  // ended from outside
};
constexpr int kNumStates = 8;

constexpr bool IsEnd(State state) { return state >= State::kDone; }
constexpr bool IsActive(State state) { return state == State::kRunning || state == State::kTool; }

// Why a trajectory changed its state.
enum class Reason : std::uint8_t {
  kNone,
  kFinished,      // the model ended it
  kLength,        // a token budget was used up
  kMaxToolCalls,  // one more call was asked for than the budget allows
  kSegment,       // the bounds of this pass were reached
  kInterrupted,   // the round is over
  kOverdue,       // it would have become too old
  kLost,          // engine or tool failed; it is tried again unless it was tried too often
  kLate,          // engine or tool did not answer in time
  kCancelled,
  kRestarted,  // the process that worked on it is gone
};

// How a request ended, as the agent read it.
enum class Outcome : std::uint8_t {
  kContinue,  // the model is to speak on
  kCall,      // a tool is to be called first
  kFinished,  // this was its end
  kLength,    // all tokens that were granted are used up
  kAborted,   // ended from outside; what was sampled is kept
};

enum class Action : std::uint8_t {
  kGenerate,  // ask the engine for at most max_new_tokens tokens
  kCall,      // let the tool run
  kPark,      // nothing; it is granted again in a later round
  kQueue,     // nothing; it is granted again as soon as there is room
  kEnd,       // nothing; it has ended
  kIgnore,    // nothing; the report came late or twice, and changed nothing
};

// Lengths of a trajectory as they are now.
struct Totals {
  std::int64_t context_tokens = 0;  // prompt and tool output included
  std::int64_t sampled_tokens = 0;  // generated length
};

// What a request to an engine came to.
struct Generation {
  Totals totals;                             // with what was kept of it, and what was put behind it
  std::int64_t sampled_tokens = 0;           // of this request, also those that the agent cut off
  std::int64_t oldest_version = kNoVersion;  // of its tokens; kNoVersion when there are none
  std::int64_t newest_version = kNoVersion;
  Outcome outcome = Outcome::kContinue;
};

// What a trajectory is to do now.
struct Verdict {
  Action action = Action::kIgnore;
  Reason reason = Reason::kNone;
  Ticket ticket = 0;                // for kGenerate and kCall: what the next report must name
  std::int64_t max_new_tokens = 0;  // for kGenerate
  bool ends_pass = false;       // for kGenerate: using them up ends this pass, not the trajectory
  bool needs_decision = false;  // Decide may have something new to say
};

// A trajectory that was waiting and may go on. verdict.action is kGenerate, or kCall when a call is
// owed since a tool failed.
struct Grant {
  Id id = 0;
  Verdict verdict;
};

// A trajectory that ended without a report of its own: cancelled, cut off, given up, or without
// room to begin with.
struct Ended {
  Id id = 0;
  State state = State::kCancelled;
  Reason reason = Reason::kNone;
};

// What the driver has to do.
struct Decisions {
  std::int64_t num_groups_wanted = 0;  // new groups to submit now
  std::vector<Grant> grants;           // to begin, in this order
  std::vector<Id> interrupts;          // whose requests are to be aborted
  std::vector<Ended> ended;            // since the last call
  bool has_more_grants = false;        // call again; only with a limit
  bool round_is_over = false;          // TakeGroups has the round's groups
  bool round_is_late = false;          // its deadline has passed
};

// A group whose trajectories have all ended.
struct Released {
  GroupId group = 0;
  std::int64_t oldest_version = kNoVersion;
  std::int64_t num_done = 0;
  std::int64_t num_truncated = 0;  // of those that are done
  std::int64_t num_failed = 0;
  std::int64_t num_cancelled = 0;
};

struct Transition {
  std::uint64_t sequence = 0;  // 1, 2, 3, ...
  Time time = 0;
  Id id = 0;
  State from = State::kNew;
  State to = State::kNew;
  Reason reason = Reason::kNone;
};

// A trajectory as it stands.
struct View {
  Id id = 0;
  State state = State::kNew;
  Reason reason = Reason::kNone;
  Totals totals;
  std::int64_t num_tool_calls = 0;
  std::int64_t num_segments = 0;  // passes that ended
  std::int64_t num_retries = 0;
  std::int64_t oldest_version = kNoVersion;
  std::int64_t newest_version = kNoVersion;
  Ticket ticket = 0;  // of what is under way; 0 for nothing
};

struct Stats {
  std::array<std::int64_t, kNumStates> num_in_state = {};  // of groups that were not released
  std::int64_t num_groups_in_flight = 0;
  std::int64_t num_groups_ready = 0;    // ended, not released
  std::int64_t num_bound_tokens = 0;    // context of what runs
  std::int64_t num_overdue_groups = 0;  // to be trained on in this round or never
  std::uint64_t num_transitions = 0;
  std::uint64_t num_late_reports = 0;  // ignored
  std::uint64_t num_retries = 0;
  std::uint64_t num_submitted = 0;  // trajectories, and how they ended
  std::uint64_t num_done = 0;
  std::uint64_t num_truncated = 0;  // of those that are done
  std::uint64_t num_failed = 0;
  std::uint64_t num_cancelled = 0;
  std::uint64_t num_groups_released = 0;
  std::int64_t max_lag_seen = 0;  // versions, of released groups
};

}  // namespace agentmath::rollout
