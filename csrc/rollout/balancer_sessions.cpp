#include "rollout/balancer_sessions.h"

#include <algorithm>

#include "rollout/prefix_hash.h"

namespace agentmath::rollout {
namespace {

constexpr std::int64_t kMaxReserved = 1 << 20;

}  // namespace

// Room for all of them from the start, untouched until it is used, so that none has to wait while
// others are moved.
Sessions::Sessions(std::int64_t max_sessions) : max_sessions_(max_sessions) {
  const auto expected = static_cast<std::size_t>(std::min(max_sessions, kMaxReserved));
  pool_.reserve(expected + 1);
  pool_.emplace_back();
  std::size_t num_buckets = 16;
  while (num_buckets < expected) num_buckets *= 2;
  buckets_.resize(num_buckets);
}

std::size_t Sessions::BucketOf(std::int64_t id) const {
  return Mix(static_cast<std::uint64_t>(id)) & (buckets_.size() - 1);
}

std::uint32_t& Sessions::Bucket(std::int64_t id) { return buckets_[BucketOf(id)]; }

std::uint32_t Sessions::At(std::int64_t id) const {
  std::uint32_t at = buckets_[BucketOf(id)];
  while (at != 0 && pool_[at].id != id) at = pool_[at].next_in_bucket;
  return at;
}

Session* Sessions::Find(std::int64_t id) {
  const std::uint32_t at = At(id);
  return at == 0 ? nullptr : &pool_[at];
}

const Session* Sessions::Find(std::int64_t id) const {
  const std::uint32_t at = At(id);
  return at == 0 ? nullptr : &pool_[at];
}

Session& Sessions::Open(std::int64_t id) {
  if (Session* known = Find(id)) return *known;
  // Where all have leases the table grows past its size: leases bound it then.
  if (size_ >= max_sessions_ && pool_[0].newer != 0) Erase(pool_[0].newer);
  if (static_cast<std::size_t>(size_) >= buckets_.size()) Grow();
  std::uint32_t at = free_;
  if (at != 0) {
    free_ = pool_[at].next_in_bucket;
  } else {
    at = static_cast<std::uint32_t>(pool_.size());
    pool_.emplace_back();
  }
  Session& session = pool_[at];
  session = Session{};
  session.id = id;
  session.older = session.newer = at;
  std::uint32_t& bucket = Bucket(id);
  session.next_in_bucket = bucket;
  bucket = at;
  ++size_;
  return session;
}

void Sessions::Settle(Session* session) {
  const auto at = static_cast<std::uint32_t>(session - pool_.data());
  Unlink(at);
  if (!session->is_idle()) return;
  if (session->has_ended) return Erase(at);
  session->newer = 0;
  session->older = pool_[0].older;
  pool_[session->older].newer = at;
  pool_[0].older = at;
  // Some may have been kept past the size only while they were busy.
  if (size_ > max_sessions_) Erase(pool_[0].newer);
}

void Sessions::Unlink(std::uint32_t at) {
  Session& session = pool_[at];
  pool_[session.older].newer = session.newer;
  pool_[session.newer].older = session.older;
  session.older = session.newer = at;
}

void Sessions::Erase(std::uint32_t at) {
  Unlink(at);
  std::uint32_t* place = &Bucket(pool_[at].id);
  while (*place != at) place = &pool_[*place].next_in_bucket;
  *place = pool_[at].next_in_bucket;
  pool_[at].next_in_bucket = free_;
  free_ = at;
  --size_;
}

void Sessions::Grow() {
  std::vector<std::uint32_t> old(buckets_.size() * 2);
  old.swap(buckets_);
  for (std::uint32_t first : old) {
    while (first != 0) {
      const std::uint32_t next = pool_[first].next_in_bucket;
      std::uint32_t& bucket = Bucket(pool_[first].id);
      pool_[first].next_in_bucket = bucket;
      bucket = first;
      first = next;
    }
  }
}

std::int64_t Sessions::num_bytes() const {
  return static_cast<std::int64_t>(pool_.size() * sizeof(Session) +
                                   buckets_.size() * sizeof(std::uint32_t));
}

}  // namespace agentmath::rollout
