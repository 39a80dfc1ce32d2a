// One simulation while it runs: trajectories, tools and trainer around scheduler and fleet.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rollout/scheduler.h"
#include "rollout/simulator.h"
#include "rollout/simulator_fleet.h"

namespace agentmath::rollout {

// A trajectory that has not ended.
struct Live {
  Id id = 0;
  TrajectoryPlan plan;
  std::size_t turn = 0;
  std::int64_t turn_tokens = 0;  // sampled of this turn
  Totals totals;

  // The request that is under way.
  Ticket ticket = 0;
  std::int64_t granted_tokens = 0;  // left of max_new_tokens
  std::int64_t request_tokens = 0;
  std::int64_t oldest_version = kNoVersion;
  std::int64_t newest_version = kNoVersion;
  bool is_aborted = false;

  // What it did in the present round.
  std::int64_t round = -1;
  double round_seconds = 0;

  std::int64_t TurnTokensLeft() const { return plan.turns[turn].tokens - turn_tokens; }
  bool IsLastTurn() const { return turn + 1 == plan.turns.size(); }
};

struct ToolEnd {
  std::int64_t ns;
  std::uint64_t sequence;
  Id id;
  Ticket ticket;
  bool operator>(const ToolEnd& other) const {
    return ns != other.ns ? ns > other.ns : sequence > other.sequence;
  }
};

// What the trainer does.
enum class Phase { kRollout, kStopping, kTraining, kUpdating };

class Simulation {
 public:
  explicit Simulation(const SimulationSettings& settings);
  SimulationResult Run();

 private:
  // ---- events ----
  void AdvanceEngines();
  void EndTools();
  void Settle();
  void ReleaseLockstep();

  // ---- trajectories ----
  void Follow(Live* live, const Verdict& verdict);
  void Generate(Live* live);
  void StartTool(Live* live);
  void Take(const PassReport& report);
  void EndPass(Live* live);
  void Answer(Id id, Ticket ticket);
  Live& At(Id id) { return live_.at(id); }
  void Count(Live* live, double seconds);
  void Forget(Id id);

  // ---- rounds ----
  void Decide();
  void SubmitGroup();
  void BeginRound();
  void EndRound();
  void Stop();
  void Abort(const std::vector<Id>& ids);
  void Train();
  void Update();
  void FinishUpdate();

  std::int64_t NextNs();
  bool IsOver() const {
    return static_cast<std::int64_t>(result_.rounds.size()) >= settings_.num_rounds;
  }
  void Summarise();

  SimulationSettings settings_;
  Workload workload_;
  Scheduler scheduler_;
  Fleet fleet_;
  std::int64_t now_ = 0;
  std::uint64_t sequence_ = 0;
  std::unordered_map<Id, Live> live_;
  std::unordered_map<GroupId, std::int64_t> group_tokens_;  // sampled, of groups not taken yet
  std::priority_queue<ToolEnd, std::vector<ToolEnd>, std::greater<ToolEnd>> tools_;
  std::vector<std::pair<Id, Ticket>> held_calls_, held_answers_;  // lockstep
  std::vector<PassReport> reports_;
  GroupId next_group_ = 1;
  Phase phase_ = Phase::kRollout;
  std::int64_t trainer_ns_ = kNever;  // when training or updating ends
  bool needs_decision_ = false;
  bool has_room_ = false;  // a lease was closed
  RoundResult round_;
  std::int64_t most_in_flight_ = 0;
  SimulationResult result_;
  // As they stood when the warm-up was over.
  std::int64_t measured_from_ns_ = 0;
  EngineCounts warmup_counts_;
  std::vector<double> warmup_busy_;
  double warmup_decode_ = 0, warmup_prefill_ = 0, warmup_update_ = 0;
};

}  // namespace agentmath::rollout
