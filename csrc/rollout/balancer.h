// Where a request runs: engines, the load bound to them, and who has cached which prefix.
//
// The scheduler decides what may run and when, the balancer where; it never queues and never waits.
// Each request is a lease: it binds weight and context tokens to one engine until it is closed.
//
//   Balancer balancer(settings);
//   balancer.AddEngine({});                                 // engine 0, and so on
//   Placement place = balancer.Acquire(request, now);       // kPlaced: send it to place.engine
//   balancer.Progress(place.lease, context_tokens);         // as it grows; optional
//   balancer.Pause(place.lease)                             // a tool runs, the cache stays in use;
//   or balancer.Release(place.lease, Ending::kFinished, now)   // its weight leaves
//   ... Acquire of the same session again, with the context that has grown: a turn boundary ...
//   balancer.EndSession(session);
//
// The weight of a request of L context tokens is w = floor(L / L_base) + w_base (AgentMath,
// "Prefix-Aware Weighted Load Balancing"), the load of engine k is W_k / capacity_k with W_k the
// sum over its leases. Weights are integers in units of 2^-16, so sums return to zero exactly.
//
// Equal calls give equal placements: time is an argument (a clock that goes backwards stands still)
// and randomness is seeded. Nothing is stored on disk: after a restart, sessions come in again by
// Acquire, or by Adopt where engines kept their caches. Every method may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace agentmath::rollout {

constexpr std::int64_t kWeightUnit = 1 << 16;  // one request of w = 1
constexpr int kNoEngine = -1;
constexpr std::int64_t kAnyVersion = INT64_MIN;
constexpr std::int64_t kNoSession = INT64_MIN;

enum class Policy : std::uint8_t {
  kAgentMath,       // lowest load when new, then the same engine for good
  kBreakable,       // as before, but a session leaves at a turn boundary when its engine's load is
                    // above leave_factor x the lowest + w + leave_slack
  kRoundRobin,      // one engine after the other
  kLeast,           // fewest open requests
  kPowerOfTwo,      // the lesser load of two drawn at random
  kConsistentHash,  // weighted rendezvous hash of the session, else of the first block
  kRadix,           // longest cached prefix; shortest queue when the queues differ much
  kScore,           // highest cached share - relative load
};
constexpr int kNumPolicies = 8;

// "agentmath", "breakable", "round_robin", "least", "power_of_two", "consistent_hash", "radix",
// "score".
const char* PolicyName(Policy policy);
// Throws std::invalid_argument that lists the names.
Policy PolicyFromName(const std::string& name);

struct BalancerSettings {
  Policy policy = Policy::kBreakable;

  std::int64_t base_tokens = 4096;  // L_base, above 0
  double base_weight = 1;           // w_base, 0 or more

  double leave_factor = 1.2;  // kBreakable: beta, 1 or more
  double leave_slack = 2;     // kBreakable: delta, 0 or more, in weights
  double miss_weight = 0.5;   // kBreakable: weights for each L_base tokens that are not cached

  double radix_match = 0.3;     // kRadix: least share of the prompt that counts as a match
  std::int64_t radix_gap = 64;  // kRadix: queues differ much when longest - shortest is above this
  double radix_ratio = 1.5;     // ... and longest is above this x shortest
  double score_load = 1;        // kScore: weight of an engine's load relative to the mean load

  // An engine takes a new lease while its bound context stays within this share of its KV tokens;
  // an idle one takes what fits at all. Sessions with a paused lease may always go on at home.
  double kv_share = 0.8;

  std::int64_t block_tokens = 16;       // of the prefix index
  std::size_t index_bytes = 64u << 20;  // hard cap on the prefix index; 0 turns it off
  std::int64_t max_sessions = 1 << 16;  // idle sessions that are remembered, least recent go first

  int breaker_failures = 3;  // in a row that close an engine for new leases; 0 is never
  std::int64_t breaker_nanoseconds = 5'000'000'000;  // until one lease may probe it; doubles, up to
                                                     // 64 times as long, while probes fail

  std::uint64_t seed = 0;
};

struct EngineSpec {
  double capacity = 1;         // speed relative to the others, above 0
  std::int64_t kv_tokens = 0;  // its KV cache; 0 is no bound
  std::int64_t version = 0;    // of its weights
};

enum class EngineState : std::uint8_t { kUp, kDraining, kDown };
enum class Breaker : std::uint8_t { kClosed, kOpen, kHalfOpen };

// One request.
struct Request {
  // Whose turn it is, any number, or kNoSession. Tokens of a session only grow: a context that is
  // seen not to continue, at the last block that was known, counts as new.
  std::int64_t session = kNoSession;
  // The context: its length, and its ids or nullptr.
  const std::int32_t* tokens = nullptr;
  std::int64_t num_tokens = 0;
  // Instead of ids: a name for each block, as in traces; the last one may be partly filled.
  const std::uint64_t* blocks = nullptr;
  std::int64_t num_blocks = 0;
  // Instead of both: the first group_tokens are the same in all requests of this group; 0 for none.
  // A session counts on what it had computed, by its length.
  std::int64_t group = 0;
  std::int64_t group_tokens = 0;
  // Engines with older weights are no candidates, so that a trajectory never goes back.
  std::int64_t min_version = kAnyVersion;
};

enum class Admission : std::uint8_t {
  kPlaced,
  kBusy,      // engines are up, but none has KV room: ask again after a lease was closed
  kNoEngine,  // none is up with these weights: ask again at retry_nanoseconds, or after EngineUp
  kTooLong,   // fits into no engine's KV cache, ever
};

struct Placement {
  Admission admission = Admission::kNoEngine;
  int engine = kNoEngine;
  std::int64_t lease = 0;       // never 0 when placed
  std::int64_t hit_tokens = 0;  // expected to be cached there, in the engine's present weights
  std::int64_t version = 0;     // of the engine's weights now
  bool is_new = false;          // the session had no engine, or lost it
  bool has_moved = false;       // ... had one that was there, and left it
  std::int64_t retry_nanoseconds = 0;  // kNoEngine: when a closed engine may be probed; 0 is never
};

enum class Ending : std::uint8_t {
  kFinished,
  kFailed,     // the engine's fault; counts for its breaker
  kCancelled,  // from outside; says nothing about the engine
};

struct EngineView {
  EngineState state = EngineState::kUp;
  Breaker breaker = Breaker::kClosed;
  double capacity = 1;
  std::int64_t kv_tokens = 0;
  std::int64_t version = 0;
  std::int64_t weight = 0;          // W, in units of 1 / kWeightUnit
  std::int64_t context_tokens = 0;  // of all leases
  std::int64_t num_running = 0;     // leases that are not paused
  std::int64_t num_paused = 0;
  std::int64_t num_blocks = 0;  // in the prefix index
  std::int64_t num_placed = 0;  // since it was added
};

struct BalancerStats {
  std::int64_t num_engines = 0;
  std::int64_t num_sessions = 0;
  std::int64_t num_leases = 0;
  std::int64_t num_blocks = 0;
  std::int64_t num_index_bytes = 0;
  std::int64_t num_session_bytes = 0;
  std::int64_t num_lease_bytes = 0;
  std::uint64_t num_placed = 0;      // of them:
  std::uint64_t num_stayed = 0;      //   at the session's engine
  std::uint64_t num_moved = 0;       //   away from it
  std::uint64_t num_refused = 0;     // kBusy, kNoEngine, kTooLong
  std::uint64_t num_late = 0;        // Progress, Pause, Release of a lease that was closed: ignored
  std::uint64_t num_lost = 0;        // leases closed by EngineDown
  std::uint64_t num_hit_tokens = 0;  // expected
  std::uint64_t num_tokens = 0;      // asked for
};

class Balancer {
 public:
  // Throws std::invalid_argument that names the setting.
  explicit Balancer(const BalancerSettings& settings);
  ~Balancer();
  Balancer(const Balancer&) = delete;
  Balancer& operator=(const Balancer&) = delete;

  // ---- engines: 0, 1, 2, ... in the order in which they are added, any number ----
  // All throw std::invalid_argument for an engine that is not there.

  // A new engine, up, with an empty cache. New sessions prefer it, as its load is the lowest; once
  // it has the load of the others it gets its share. Throws std::invalid_argument.
  int AddEngine(const EngineSpec& spec);
  // It is back, or no longer drains. Its breaker closes; its cache is empty if it was down.
  void EngineUp(int engine);
  // It is gone, its cache too: returns its leases, which are closed. Their requests go on
  // elsewhere.
  std::vector<std::int64_t> EngineDown(int engine);
  // It finishes what it has and gets nothing new; sessions leave at their next turn.
  void Drain(int engine);
  // Its weights changed (up or down), its cache is void. Open leases stay.
  void SetVersion(int engine, std::int64_t version);
  // Its cache is void, with the same weights.
  void ClearCache(int engine);
  // It dropped all blocks of this context behind the first kept_tokens. Engines must drop later
  // blocks of a context first.
  void DropCached(int engine, const Request& context, std::int64_t kept_tokens);

  // ---- requests ----

  // Throws std::invalid_argument for negative lengths.
  Placement Acquire(const Request& request, std::int64_t now);

  // The next three say whether the lease was open. One that was closed is counted and ignored, so
  // that ends may come late or twice; one that was never given throws std::invalid_argument.

  // The context of the request has num_tokens tokens now: its weight follows.
  bool Progress(std::int64_t lease, std::int64_t num_tokens);
  // The request has ended, its session goes on after a tool's answer and keeps its weight until
  // then: closed by the session's next Acquire or EndSession. Without a session it is Release.
  bool Pause(std::int64_t lease, std::int64_t now);
  bool Release(std::int64_t lease, Ending ending, std::int64_t now);

  // Forgets a session and closes its paused lease; running ones end on their own. False if unknown.
  bool EndSession(std::int64_t session);
  // After a restart: the session's context is cached at this engine. Binds no weight.
  void Adopt(int engine, const Request& context);

  // ---- state ----

  const BalancerSettings& settings() const;
  // The engine of an open lease, else kNoEngine.
  int EngineOf(std::int64_t lease) const;
  // Tokens of this session that need no hashing when they come again.
  std::int64_t NumKnownTokens(std::int64_t session) const;
  EngineView Look(int engine) const;
  BalancerStats GetStats() const;
  // Everything as text, for people.
  std::string Dump() const;
  // Adds everything up again by brute force; throws std::logic_error where a sum is wrong.
  void Verify() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace agentmath::rollout
