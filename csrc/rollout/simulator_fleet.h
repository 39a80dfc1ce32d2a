// The engines of a simulation behind the production balancer.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "rollout/balancer.h"
#include "rollout/simulator_engine.h"
#include "rollout/simulator_timeline.h"

namespace agentmath::rollout {

// What one trajectory asks of the engines now.
struct Ask {
  std::int64_t session = 0;  // above 0
  std::int64_t group = 0;
  std::int64_t context_tokens = 0;
  std::int64_t tokens = 0;
};

struct FleetSettings {
  EngineSettings engine;
  BalancerSettings balancer;
  std::int64_t num_engines = 1;
  std::int64_t prompt_tokens = 0;
  bool balancer_knows_kv = false;
};

class Fleet {
 public:
  explicit Fleet(const FleetSettings& settings);

  // Place a request, now or when the balancer has room for it: first come, first served.
  void Place(const Ask& ask, std::int64_t now);
  // Tries those that wait. True when one was placed.
  bool PlaceWaiting(std::int64_t now);

  // When an engine has something to do; kNever when none has.
  std::int64_t next_ns();
  // Advances one engine that is due now; appends what its passes came to.
  void Advance(std::int64_t now, std::vector<PassReport>* reports);

  void Progress(std::int64_t session, std::int64_t context_tokens);
  // The request is over. Its session keeps its weight while a tool works for it (Pause).
  void Pause(std::int64_t session, std::int64_t now);
  void Release(std::int64_t session, std::int64_t now);
  void EndSession(std::int64_t session);

  void Abort(std::int64_t session, std::int64_t now, std::vector<PassReport>* reports);

  // Engines stop for new weights, and go on with them.
  void PauseAll(std::int64_t now, bool keeps_kv, std::vector<PassReport>* reports);
  void ResumeAll(std::int64_t now, bool keeps_kv, std::int64_t version);

  bool is_idle() const;
  EngineCounts counts() const;
  const Timeline& timeline() const { return timeline_; }
  void RestartTimeline(std::int64_t now) { timeline_.Restart(now); }
  const Balancer& balancer() const { return balancer_; }
  double decode_seconds() const { return decode_seconds_; }
  double prefill_seconds() const { return prefill_seconds_; }
  const std::vector<double>& busy_seconds() const { return busy_seconds_; }

 private:
  struct Due {
    std::int64_t ns;
    std::uint64_t sequence;
    int engine;
    bool operator>(const Due& other) const {
      return ns != other.ns ? ns > other.ns : sequence > other.sequence;
    }
  };
  struct Seat {
    std::int64_t lease = 0;
    int engine = kNoEngine;
  };

  bool TryPlace(const Ask& ask, std::int64_t now);
  void Schedule(int engine);
  void Take(int engine, std::vector<Stretch>* stretches);

  FleetSettings settings_;
  Balancer balancer_;
  std::vector<ModelledEngine> engines_;
  Timeline timeline_;
  std::priority_queue<Due, std::vector<Due>, std::greater<Due>> due_;
  std::uint64_t sequence_ = 0;
  std::vector<std::int64_t> scheduled_ns_;
  std::deque<Ask> waiting_;
  std::unordered_map<std::int64_t, Seat> seats_;  // by session
  std::vector<Stretch> stretches_;
  std::vector<double> busy_seconds_;  // by engine
  double decode_seconds_ = 0;
  double prefill_seconds_ = 0;
};

}  // namespace agentmath::rollout
