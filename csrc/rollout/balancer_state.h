// The inside of a balancer; every function runs under its one lock.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "rollout/balancer.h"
#include "rollout/balancer_engines.h"
#include "rollout/balancer_leases.h"
#include "rollout/balancer_policies.h"
#include "rollout/balancer_sessions.h"
#include "rollout/prefix_hash.h"
#include "rollout/prefix_index.h"

namespace agentmath::rollout {

// A request as numbers.
struct Context {
  std::int64_t num_tokens = 0;
  std::int64_t weight = 0;
  Blocks blocks;
  bool has_content = false;  // the blocks are the whole context, not what a group shares
  bool is_hashed = false;    // State::chain has the hashes of all blocks
};

struct Balancer::State {
  explicit State(const BalancerSettings& given);

  // Throws std::invalid_argument.
  Engine& At(int engine);
  Context Read(const Request& request);
  std::int64_t Weight(std::int64_t num_tokens) const;

  // ---- balancer_acquire.cpp ----
  Placement Acquire(const Request& request, std::int64_t now);
  int Route(const Request& request, Context* context, Session* session, bool has_paused);
  void FindHits(Context* context, const Session* session);
  void Bind(const Context& context, Session* session, Placement* place);
  Placement Refuse(const Request& request, const Context& context);
  std::uint64_t HashKey(const Request& request, const Context& context) const;

  // ---- balancer_caches.cpp: what is known to be cached ----
  // Is the session's engine there to go back to, and does it still hold what it had computed?
  bool HasHome(const Session& session) const;
  bool IsCached(const Session& session, int engine) const;
  // Notes that the engine will hold the context; returns how much of it it held before.
  std::int64_t Learn(Context* context, Session* session, int engine);
  bool Continues(const Context& context, const Session& session) const;
  bool LearnRest(Context* context, Session* session, int engine);
  std::int64_t LengthHit(const Context& context, const Session& session) const;
  void HashAll(Context* context);
  std::int64_t HeldTokens(const Context& context, int engine) const;
  void VoidCache(int engine);

  // ---- balancer_endings.cpp: leases after they were given ----
  // Its weight, tokens and count leave its engine, or come back.
  void Unbind(const Lease& lease);
  void Rebind(const Lease& lease);
  // The lease, or nullptr after it was counted as late.
  Lease* FindOpen(std::int64_t number);
  void Close(Lease* lease, Ending ending);
  void ClosePaused(Session* session);
  void Report(const Lease& lease, Ending ending);

  const BalancerSettings settings;
  mutable std::mutex mutex;
  std::int64_t now = INT64_MIN;
  std::vector<Engine> engines;
  Sessions sessions;
  Leases leases;
  PrefixIndex index;
  SplitMix random;
  int next_engine = 0;  // of equal ones
  BalancerStats counts;

  // Scratch, kept so that a decision allocates nothing.
  std::uint64_t group_name = 0;
  std::vector<std::uint64_t> chain;
  std::vector<int> candidates;
  std::vector<std::int64_t> hits;
};

}  // namespace agentmath::rollout
