// Which trajectories may run, how far each may go, and when a step has what it needs.
//
// A step is made of rounds. The caller submits groups, starts what Admit names, asks before every
// request how much may be sampled, and tells what happened. It owns prompts, tokens and waiting;
// this class owns states, budgets, quotas and versions. It never waits, holds no clock and draws no
// random numbers: equal calls give equal answers.
//
//   mode      a round ends when                         what is unfinished then
//   batch     every trajectory has ended                nothing is
//   segments  every trajectory has ended or reached     goes on in the next round with newer
//   weights
//             the bound of its pass
//   quota     enough groups have ended                  is interrupted, and goes on in the next
//   step async     as quota                                  runs on while weights change
//
// In quota and async new groups begin as others end. Versions count weight updates; the age of a
// group is that of its oldest sampled token, and max_lag bounds it where the group is consumed. So
// no more groups are begun than can be consumed in time, and a step waits for those that the next
// one would find too old. With max_lag 0 both are batch.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace agentmath::rollout {

// Group number times 2^16 plus the sample's.
using Key = std::int64_t;
constexpr std::int64_t kSamplesPerGroup = 1 << 16;
constexpr std::int64_t kNoVersion = -1;

enum class Mode { kBatch, kSegments, kQuota, kAsync };
enum class State { kQueued, kRunning, kTool, kParked, kDone, kFailed, kCancelled };

// Of one trajectory; 0 sets no bound where a bound may be left out.
struct Budgets {
  std::int64_t sampled_tokens = 1;
  std::int64_t context_tokens = 1;
  std::int64_t tool_calls = 0;
  std::int64_t segments = 1;        // passes; the last one has no bound of its own
  std::int64_t segment_tokens = 0;  // of one pass, or 0
  std::int64_t segment_calls = 0;   // of one pass, or 0
};

struct Settings {
  Mode mode = Mode::kBatch;
  std::int64_t groups_per_step = 1;
  std::int64_t groups_in_flight = 1;  // quota and async: begun and unfinished at a time
  std::int64_t max_lag = 0;           // versions
  std::int64_t max_rounds =
      1;  // of a step; in quota and async, times groups_per_step that it may begin
  std::int64_t kv_tokens = 0;  // context of all that run at a time, or 0
};

// What a trajectory has used up; how one that was begun in an earlier life is handed back.
struct History {
  std::int64_t context_tokens = 0;
  std::int64_t sampled_tokens = 0;
  std::int64_t tool_calls = 0;
  std::int64_t segments = 0;
  std::int64_t oldest_version = kNoVersion;
};

// The answer to Ask.
struct Allowance {
  enum class Bound { kLength, kSegment };
  std::int64_t tokens = 0;       // 0: nothing may be sampled
  Bound bound = Bound::kLength;  // which budget it is that ends there
};

struct Transition {
  std::int64_t sequence;
  Key key;
  State from, to;
};

class Scheduler {
 public:
  // Throws Error for settings or budgets that cannot work.
  Scheduler(const Settings& settings, const Budgets& budgets);

  // Budgets from now on, for all trajectories.
  void SetBudgets(const Budgets& budgets);

  // ---- groups

  // A group with one trajectory for each history, in the order of samples. Error for a group that
  // is known.
  void Submit(std::int64_t group, const std::vector<History>& samples);
  // Groups all of whose trajectories have ended, oldest first; they are forgotten.
  std::vector<std::int64_t> Release();
  // Ends what has not ended of a group; false when the group is unknown.
  bool Cancel(std::int64_t group);

  // ---- a step

  // Weights have this version from now on; what was parked is queued again. Error for a version
  // that goes back, and while something runs, but for async.
  void BeginStep(std::int64_t version);
  // `kept` more groups are to be trained on.
  void Credit(std::int64_t kept);
  // Another round, if the one before was released: what was parked is queued again. Error while
  // something runs.
  void BeginRound();
  // Groups to submit now.
  std::int64_t NumWanted() const;
  // Trajectories to start, those begun earlier first, then in the order of groups; they count as
  // running.
  std::vector<Key> Admit();
  // The round is over, or enough groups to look at have ended: time to Release.
  bool IsRoundOver() const;
  // The step has what it needs, or nothing more can be had.
  bool IsStepOver() const;
  // Nothing more may be sampled in this step. What runs, to be aborted.
  std::vector<Key> Interrupt();
  // True when a group whose oldest token has this version may be trained on now.
  bool IsFresh(std::int64_t oldest_version) const;

  // ---- a trajectory that runs; Error for one that does not

  // What the next request may sample. Its tokens may have this version from now on, whenever they
  // are told of.
  Allowance Ask(Key key, std::int64_t context_tokens);
  bool MayCall(Key key) const;
  // oldest_version: of these tokens, or kNoVersion where nobody knows.
  void Sampled(Key key, std::int64_t tokens, std::int64_t oldest_version);
  // Tokens that nobody sampled: tool output, notices.
  void Inserted(Key key, std::int64_t tokens);
  void CallBegan(Key key);
  void CallEnded(Key key);
  void Park(Key key);
  // kDone, kFailed or kCancelled. One that has ended already is left alone: late news change
  // nothing.
  void End(Key key, State outcome);

  // ---- looks

  State StateOf(Key key) const;
  History HistoryOf(Key key) const;
  // Not ended, in the order of keys.
  std::vector<Key> Unfinished() const;
  std::int64_t num_active() const { return num_active_; }
  std::int64_t active_context_tokens() const { return active_context_; }
  std::int64_t num_unfinished_groups() const { return num_unfinished_groups_; }
  // The last few thousand, oldest first.
  const std::deque<Transition>& transitions() const { return transitions_; }
  // One line for each group, for people.
  std::string Dump() const;

 private:
  struct Trajectory {
    State state = State::kQueued;
    History used;
    std::int64_t pass_tokens = 0, pass_calls = 0;
    std::int64_t asked_version = kNoVersion;  // of a request that is under way
  };
  struct Group {
    std::vector<Trajectory> samples;
    std::int64_t unfinished = 0;
  };

  const Trajectory& Find(Key key) const;
  Trajectory& Active(Key key);
  const Trajectory& Active(Key key) const;
  void Move(Key key, Trajectory& trajectory, State to);
  void QueueParked();
  bool AnyMustFinish() const;
  bool StopsEarly() const {
    return settings_.mode == Mode::kQuota || settings_.mode == Mode::kAsync;
  }
  bool IsIdle() const { return num_active_ == 0 && queue_.empty(); }

  Settings settings_;
  Budgets budgets_;
  std::map<std::int64_t, Group> groups_;
  std::set<std::pair<bool, Key>> queue_;  // (is new, key)
  std::int64_t version_ = 0, kept_ = 0, begun_ = 0, round_ = 0;
  std::int64_t num_active_ = 0, active_context_ = 0, num_unfinished_groups_ = 0,
               num_ended_groups_ = 0;
  bool interrupted_ = false;
  bool was_released_ = false;  // what this round has ended
  std::int64_t sequence_ = 0;
  std::deque<Transition> transitions_;
};

}  // namespace agentmath::rollout
