#include "rollout/balancer_policies.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "rollout/prefix_hash.h"

namespace agentmath::rollout {
namespace {

// The candidate of the lowest cost; of equal ones that with the fewest leases, then the next round
// the engines.
template <typename Cost>
int Lowest(const Question& q, Cost cost) {
  int best = kNoEngine;
  double lowest = 0;
  const auto start = std::lower_bound(q.candidates.begin(), q.candidates.end(), q.first);
  const auto offset = static_cast<std::size_t>(start - q.candidates.begin());
  for (std::size_t i = 0; i < q.candidates.size(); ++i) {
    const std::size_t at = i + offset;
    const int engine = q.candidates[at < q.candidates.size() ? at : at - q.candidates.size()];
    const double value = cost(engine);
    if (best != kNoEngine) {
      if (value > lowest) continue;
      if (value == lowest && q.engines[engine].num_bound() >= q.engines[best].num_bound()) continue;
    }
    best = engine;
    lowest = value;
  }
  return best;
}

double Queue(const Engine& engine) {
  return static_cast<double>(engine.num_running) / engine.spec.capacity;
}

int LowestLoad(const Question& q) {
  return Lowest(q, [&](int k) { return q.engines[k].load; });
}

int ShortestQueue(const Question& q) {
  return Lowest(q, [&](int k) { return Queue(q.engines[k]); });
}

// (W_k + mu x missed_k / L_base) / capacity_k
int LowestLoadWithMisses(const Question& q) {
  const double unit =
      q.settings.miss_weight * kWeightUnit / static_cast<double>(q.settings.base_tokens);
  return Lowest(q, [&](int k) {
    const double missed = static_cast<double>(q.num_tokens - q.hit_tokens[k]);
    return (static_cast<double>(q.engines[k].weight) + unit * missed) / q.engines[k].spec.capacity;
  });
}

int PowerOfTwo(const Question& q, SplitMix* random) {
  const std::uint64_t n = q.candidates.size();
  if (n == 1) return q.candidates[0];
  const std::uint64_t i = random->Next() % n;
  const std::uint64_t j = (i + 1 + random->Next() % (n - 1)) % n;
  const int a = q.candidates[i], b = q.candidates[j];
  return q.engines[b].load < q.engines[a].load ? b : a;
}

// Rendezvous hashing with weights (Schindelhauer, Schomaker, "Weighted distributed hash tables"):
// engine k has the cost -ln(u_k) / capacity_k, with u_k the hash of key and engine in (0, 1). When
// an engine comes or goes, only its own sessions move.
int ConsistentHash(const Question& q) {
  if (q.key == 0) return LowestLoad(q);
  return Lowest(q, [&](int k) {
    const std::uint64_t hash = Mix(q.key ^ Mix(q.settings.seed + static_cast<std::uint64_t>(k)));
    const double u = (static_cast<double>(hash >> 11) + 0.5) * 0x1p-53;
    return -std::log(u) / q.engines[k].spec.capacity;
  });
}

// The rule of SGLang's router: by queues while they differ much, else by the longest match, and
// where nothing matches to the engine with the least in its cache.
int Radix(const Question& q) {
  double shortest = std::numeric_limits<double>::infinity(), longest = 0;
  std::int64_t best_hit = 0;
  for (const int k : q.candidates) {
    shortest = std::min(shortest, Queue(q.engines[k]));
    longest = std::max(longest, Queue(q.engines[k]));
    best_hit = std::max(best_hit, q.hit_tokens[k]);
  }
  const BalancerSettings& s = q.settings;
  if (longest - shortest > static_cast<double>(s.radix_gap) && longest > s.radix_ratio * shortest)
    return ShortestQueue(q);
  if (static_cast<double>(best_hit) > s.radix_match * static_cast<double>(q.num_tokens))
    return Lowest(q, [&](int k) { return -static_cast<double>(q.hit_tokens[k]); });
  return Lowest(q, [&](int k) { return static_cast<double>(q.index->num_held(k)); });
}

// Share of the prompt that is cached - load / mean load, as in vLLM's production stack.
int Score(const Question& q) {
  double sum = 0;
  for (const int k : q.candidates) sum += q.engines[k].load;
  const double mean = sum / static_cast<double>(q.candidates.size());
  const double tokens = static_cast<double>(std::max<std::int64_t>(q.num_tokens, 1));
  return Lowest(q, [&](int k) {
    const double relative = mean > 0 ? q.engines[k].load / mean : 0;
    return q.settings.score_load * relative - static_cast<double>(q.hit_tokens[k]) / tokens;
  });
}

}  // namespace

std::uint64_t SplitMix::Next() { return Mix(state_ += 0x9e3779b97f4a7c15ULL); }

bool NeedsHits(Policy policy) {
  return policy == Policy::kBreakable || policy == Policy::kRadix || policy == Policy::kScore;
}

int Choose(const Question& question, SplitMix* random) {
  switch (question.settings.policy) {
    case Policy::kAgentMath:
      return LowestLoad(question);
    case Policy::kBreakable:
      return LowestLoadWithMisses(question);
    case Policy::kRoundRobin: {
      const auto& all = question.candidates;
      const auto next = std::lower_bound(all.begin(), all.end(), question.first);
      return next == all.end() ? all.front() : *next;
    }
    case Policy::kLeast:
      return ShortestQueue(question);
    case Policy::kPowerOfTwo:
      return PowerOfTwo(question, random);
    case Policy::kConsistentHash:
      return ConsistentHash(question);
    case Policy::kRadix:
      return Radix(question);
    case Policy::kScore:
      return Score(question);
  }
  return kNoEngine;
}

// W_home > beta W_min + w + delta, the session's w being in W_home; by capacity, where these
// differ.
bool MayLeave(const Question& q, int home, std::int64_t weight) {
  const Engine* lowest = nullptr;
  for (const int k : q.candidates)
    if (k != home && (lowest == nullptr || q.engines[k].load < lowest->load))
      lowest = &q.engines[k];
  if (lowest == nullptr) return false;
  const double w = static_cast<double>(weight);
  const double at_home = q.engines[home].load + w / q.engines[home].spec.capacity;
  const double elsewhere = q.settings.leave_factor * lowest->load +
                           (w + q.settings.leave_slack * kWeightUnit) / lowest->spec.capacity;
  return at_home > elsewhere;
}

}  // namespace agentmath::rollout
