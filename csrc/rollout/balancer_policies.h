// The routing policies: which of the candidates gets a request that has to go somewhere.
#pragma once

#include <cstdint>
#include <vector>

#include "rollout/balancer.h"
#include "rollout/balancer_engines.h"
#include "rollout/prefix_index.h"

namespace agentmath::rollout {

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators").
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next();

 private:
  std::uint64_t state_;
};

struct Question {
  const BalancerSettings& settings;
  const std::vector<Engine>& engines;
  const std::vector<int>& candidates;  // rising, at least one
  int first = 0;                       // of equal ones, the first from here on, round the engines
  std::int64_t num_tokens = 0;
  const std::int64_t* hit_tokens = nullptr;  // by engine; only where NeedsHits
  const PrefixIndex* index = nullptr;
  std::uint64_t key = 0;  // what kConsistentHash hashes; 0 is nothing
};

// Does Choose look at hit_tokens?
bool NeedsHits(Policy policy);

int Choose(const Question& question, SplitMix* random);

// kBreakable: may a session of this weight leave its home, where its own weight is not bound?
bool MayLeave(const Question& question, int home, std::int64_t weight);

}  // namespace agentmath::rollout
