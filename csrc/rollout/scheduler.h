// What may run, and when: states, budgets, admission, rounds and versions of trajectories.
//
// A trainer asks for groups in rounds. Whoever drives the scheduler (an event loop, a simulator, a
// test) reports what happened and asks what to do; the scheduler waits for nothing, starts nothing,
// reads no clock and draws no random numbers, so equal reports give equal decisions.
//
//   Scheduler scheduler(settings);
//   for (version = 0;; ++version) {
//     scheduler.BeginRound(groups_per_step, now);
//     for (;;) {
//       Decisions todo = scheduler.Decide(now);
//       submit todo.num_groups_wanted new groups (then decide again), begin todo.grants,
//       abort the requests of todo.interrupts
//       if (todo.round_is_over) break;
//       wait for something to happen and report it: each report names its ticket, and its verdict
//       says how this trajectory goes on
//     }
//     if weights must not change under running requests: Interrupt(), abort those it names and
//     report them, until Stats says that nothing runs
//     train on TakeGroups();
//     scheduler.SetVersion(version + 1, now);
//   }
//
// Where a trajectory runs is not decided here but by the balancer.
//
// new -> queued -> running <-> tool          running, tool -> done, failed, parked, queued (retry)
//           ^-------- parked <---'           any but ended -> cancelled
//
// Every method may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rollout/records.h"
#include "rollout/settings.h"

namespace agentmath::rollout {

class Scheduler {
 public:
  // Throws std::invalid_argument for settings that cannot be.
  explicit Scheduler(const Settings& settings);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // ---- the trainer ----

  // The trainer wants `wanted` groups now. Parked trajectories may go on.
  void BeginRound(std::int64_t wanted, Time now);

  // The groups of a round that is over, oldest first by their oldest token: as many as it wanted
  // (kQuota, kAsync; more when more are due to be trained on now or never), or all that ended.
  // Nothing while the round is not over. They are forgotten: what is reported of them is late.
  std::vector<Released> TakeGroups();

  // Stops the round: what waits is parked, what runs is parked at its next report. Returns the ids
  // whose requests to an engine should be aborted and whose tools are waited for.
  std::vector<Id> Interrupt(Time now);

  // Later tokens come from weights `version`. Throws std::invalid_argument when it is lower.
  void SetVersion(std::int64_t version, Time now);

  // A step's ends are counted, the stage of the budgets grows when too many were cut off by a
  // budget; true when it did. Counted are groups released since the last call.
  bool EndStep();

  // No group will be submitted any more: rounds are over when all that there is has ended.
  void CloseIntake();

  // ---- trajectories ----

  // A new group of `num_samples` trajectories; ids are IdOf(group, 0), IdOf(group, 1), ...
  // Throws std::invalid_argument for a group id that is not above all earlier ones, and for a
  // prompt that never fits into kv_budget_tokens. One that leaves no room within the budgets ends
  // as soon as it is to begin.
  void Submit(GroupId group, std::int64_t prompt_tokens, std::int64_t num_samples, Time now);

  // A trajectory just submitted has in truth passes behind it: takes totals, counts and versions of
  // `where`. Throws std::invalid_argument once it was granted.
  void Resume(Id id, const View& where);

  // ---- reports ----
  // A ticket that was never given throws std::invalid_argument; one that is no longer valid is
  // counted and ignored. Counts below 0 throw std::invalid_argument.

  Verdict Generated(Ticket ticket, const Generation& what, Time now);

  // The tool's result is in the context.
  Verdict Answered(Ticket ticket, const Totals& totals, Time now);

  // Engine or tool failed; totals are what is kept. `owes_call`: of a tool's ticket, only the call
  // is repeated; else the trajectory speaks on from totals. Tried again while retries are left.
  Verdict Lost(Ticket ticket, const Totals& totals, bool owes_call, Time now);

  // Ends trajectories from outside; those that have ended stay as they are. Their running requests
  // are among the next interrupts. False when there was nothing to end.
  bool Cancel(Id id, Time now);
  bool CancelGroup(GroupId group, Time now);

  // ---- decisions ----

  // At most `limit` grants (0: all). Gives up what is past its deadline. The call that first says
  // that the round is over grants nothing, so that a driver may interrupt all that runs.
  Decisions Decide(Time now, std::int64_t limit = 0);

  // When Decide should be called although nothing was reported; 0 when there is no such time.
  Time NextDeadline() const;

  // Readable from a report (or anything else that may change decisions) until the next Decide: one
  // wake-up for all that happened in between. Made at the first call. Throws Error.
  int WakeupFd();

  // KV tokens that may be bound from now on, as engines come and go; 0 is no bound.
  void SetKvBudget(std::int64_t tokens);

  // ---- state ----

  Settings settings() const;
  std::int64_t version() const;
  std::int64_t stage() const;
  // Also gives up the count of its steps.
  void SetStage(std::int64_t stage);

  bool Contains(Id id) const;
  // Throws std::invalid_argument for an id that is not known.
  View Look(Id id) const;
  Stats GetStats() const;

  // Transitions since the last call, oldest first; at most settings.log_capacity.
  std::vector<Transition> TakeLog();

  // Everything as JSON, for people: counts, and each trajectory that has not ended, with what it
  // waits for and since when.
  std::string Dump(Time now) const;

  // Everything but settings. Restored trajectories that were under way are parked; old tickets are
  // late. Restore throws std::invalid_argument for bytes that are damaged or of another format.
  std::string Snapshot() const;
  void Restore(const std::string& bytes);

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace agentmath::rollout
