// The state behind a Scheduler, without its lock: who is where, who waits, and what is due.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rollout/records.h"
#include "rollout/settings.h"

namespace agentmath::rollout {

struct Trajectory {
  Id id = 0;
  State state = State::kNew;
  Reason reason = Reason::kNone;
  Totals totals;
  std::int64_t num_tool_calls = 0;
  std::int64_t num_segments = 0;
  std::int64_t num_retries = 0;
  std::int64_t num_grants = 0;
  std::int64_t oldest_version = kNoVersion;
  std::int64_t newest_version = kNoVersion;
  std::int64_t pass_sampled_tokens = 0;
  std::int64_t pass_tool_calls = 0;
  Ticket ticket = 0;
  std::int64_t ticket_version = kNoVersion;  // weights at the time of the request
  bool ends_pass = false;                    // of the request: what using it up means
  bool owes_call = false;                    // a tool is to be called before the model speaks on
  bool is_cut = false;                       // to end at its next report
  Time since = 0;
  Time deadline = 0;  // of the ticket; 0 is none
};

struct Group {
  GroupId id = 0;
  std::vector<Trajectory> samples;
  std::int64_t num_open = 0;  // samples that have not ended
  // Of the oldest token that any of its samples has, or may be getting at this moment.
  std::int64_t oldest_version = kNoVersion;
};

// Groups of one age.
struct Cohort {
  std::int64_t num_groups = 0;
  std::int64_t num_ready = 0;
};

class Ledger {
 public:
  explicit Ledger(const Settings& settings);

  void BeginRound(std::int64_t wanted);
  std::vector<Released> TakeGroups();
  std::vector<Id> Interrupt();
  void SetVersion(std::int64_t version);
  bool EndStep();
  void CloseIntake() { is_intake_closed_ = true; }

  void Submit(GroupId group, std::int64_t prompt_tokens, std::int64_t num_samples);
  void Resume(Id id, const View& where);

  Verdict Generated(Ticket ticket, const Generation& what);
  Verdict Answered(Ticket ticket, const Totals& totals);
  Verdict Lost(Ticket ticket, const Totals& totals, bool owes_call);
  bool Cancel(Id id);
  bool CancelGroup(GroupId group);

  Decisions Decide(std::int64_t limit);
  Time NextDeadline() const;

  void Tick(Time now);
  void SetKvBudget(std::int64_t tokens);
  void SetStage(std::int64_t stage);
  const Settings& settings() const { return settings_; }
  std::int64_t version() const { return version_; }
  std::int64_t stage() const { return stage_; }

  const Trajectory* Find(Id id) const;
  View Look(Id id) const;
  Stats GetStats() const;
  std::vector<Transition> TakeLog();
  std::string Dump() const;
  std::string Snapshot() const;
  void Restore(const std::string& bytes);

 private:
  // By age, then by the order of submission.
  using Place = std::pair<std::int64_t, std::int64_t>;

  // transitions (ledger.cpp)
  Trajectory* At(Id id);
  Trajectory* Open(Ticket ticket, State wanted);
  void Move(Trajectory* t, State to, Reason reason);
  Verdict End(Trajectory* t, State end, Reason reason);
  Verdict Park(Trajectory* t, Reason reason);
  Verdict Queue(Trajectory* t, Reason reason);
  Verdict Ask(Trajectory* t, Action action);
  Verdict GoOn(Trajectory* t);
  Verdict GiveUp(Trajectory* t, Reason reason);
  void CloseTicket(Trajectory* t);
  void SetTotals(Trajectory* t, const Totals& totals);
  void SetAge(Group* group);
  void Join(const Group& group);
  void Leave(const Group& group);
  void Adopt(Group* group);
  Place QueuePlace(const Trajectory& t) const;
  Group& GroupOfTrajectory(const Trajectory& t) { return groups_.at(GroupOf(t.id)); }

  // budgets (ledger.cpp)
  const Budgets& budgets() const { return settings_.stages[static_cast<std::size_t>(stage_)]; }
  std::int64_t Room(const Trajectory& t) const;
  std::int64_t PassRoom(const Trajectory& t) const;

  // rounds (rounds.cpp)
  bool EndsByCount() const;
  bool HasFixedIntake() const;
  std::int64_t NumWanted() const;
  std::int64_t NumSlots() const;
  struct Due {
    std::int64_t num_groups = 0;   // to be released now
    std::int64_t num_missing = 0;  // of those, not ready
  };
  Due GetDue() const;
  bool IsRoundOver() const;
  void CutOverdue();
  void ExpireTickets();
  bool HasRoomFor(const Trajectory& t) const;
  void Admit(std::int64_t limit, Decisions* decisions);
  std::int64_t NumInFlight() const;
  std::int64_t NumOpen() const;
  std::int64_t NumActive() const;

  Settings settings_;
  Time now_ = 0;
  std::int64_t version_ = 0;
  std::int64_t stage_ = 0;
  std::deque<double> rates_;
  std::int64_t num_step_done_ = 0, num_step_truncated_ = 0;

  bool is_round_open_ = false;
  bool is_over_told_ = false;
  bool is_closing_ = false;  // interrupted
  bool is_intake_closed_ = false;
  std::int64_t wanted_ = 0;
  std::int64_t intake_ = 0;  // groups that may still be submitted, where that is fixed per round
  Time round_deadline_ = 0;

  std::map<GroupId, Group> groups_;
  std::set<Place> queue_;  // (age of its group, trajectory)
  std::set<Id> parked_;
  std::set<Place> ready_;  // (age, group)
  std::set<Place> aged_;   // (age, group): those that have tokens and are not ready
  std::map<std::int64_t, Cohort> cohorts_;  // by age
  std::unordered_map<Ticket, Id> tickets_;
  std::set<std::pair<Time, Ticket>> deadlines_;
  std::vector<Id> interrupts_;
  std::vector<Ended> ended_;
  std::deque<Transition> log_;
  GroupId last_group_ = -1;
  Ticket next_ticket_ = 1;
  Stats stats_;
};

}  // namespace agentmath::rollout
