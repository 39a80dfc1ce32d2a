// What the balancer remembers of each session: where it ran, and how much of its context is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace agentmath::rollout {

struct Session {
  std::int64_t id = 0;
  std::uint64_t chain = 0;          // hash of its first num_blocks blocks, in the prefix index
  std::uint64_t chain_but_one = 0;  // of one block less, to see that the context continues
  std::int64_t context_tokens = 0;  // that its engine has computed
  std::int64_t paused = 0;          // lease that keeps its weight; 0 is none
  std::int32_t num_blocks = 0;
  std::int32_t engine = -1;
  std::uint32_t cache_epoch = 0;  // of the engine, when it last ran there
  std::int32_t num_running = 0;   // open leases that are not paused
  std::uint32_t older = 0;        // list of the idle ones; both are itself when it is not idle
  std::uint32_t newer = 0;
  std::uint32_t next_in_bucket = 0;  // or next free one
  bool has_ended = false;            // forgotten as soon as nothing of it runs

  bool is_idle() const { return num_running == 0 && paused == 0; }
};

// Sessions by id. Those with open leases stay; of the idle ones the least recently used goes when
// there are max_sessions. References are valid until the next Open.
class Sessions {
 public:
  explicit Sessions(std::int64_t max_sessions);

  // nullptr when it is not known.
  Session* Find(std::int64_t id);
  const Session* Find(std::int64_t id) const;
  // Finds it or makes a new one, which is to be settled when something has run.
  Session& Open(std::int64_t id);
  // To be called whenever is_idle() or has_ended changed: the most recently used idle one, if so.
  void Settle(Session* session);

  std::int64_t size() const { return size_; }
  std::int64_t num_bytes() const;

  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const std::uint32_t first : buckets_)
      for (std::uint32_t at = first; at != 0; at = pool_[at].next_in_bucket) visit(pool_[at]);
  }

 private:
  std::uint32_t At(std::int64_t id) const;
  std::uint32_t& Bucket(std::int64_t id);
  std::size_t BucketOf(std::int64_t id) const;
  void Unlink(std::uint32_t at);
  void Erase(std::uint32_t at);
  void Grow();

  std::int64_t max_sessions_;
  std::int64_t size_ = 0;
  std::vector<Session> pool_;  // [0] holds the ends of the list: .newer is the oldest idle one
  std::vector<std::uint32_t> buckets_;
  std::uint32_t free_ = 0;
};

}  // namespace agentmath::rollout
