#include "rollout/prefix_index.h"

#include <algorithm>
#include <stdexcept>

#include "rollout/prefix_hash.h"

namespace agentmath::rollout {
namespace {

constexpr std::size_t kBytesPerBlock = 46;  // a node, and one and a half buckets
constexpr std::size_t kMaxBlocks = (1u << 24) - 1;
constexpr std::size_t kAhead = 16;  // blocks whose memory is asked for in advance
constexpr std::int64_t kMaxBatch = 32;
constexpr std::uint32_t kLastClock = UINT32_MAX;

// A bucket is its first node and, in the upper byte, one bit for each eighth of the keys that it
// may hold: most keys that are not there are found out without a look at the nodes. Bits stay until
// the bucket is empty.
constexpr std::uint32_t kRefMask = kMaxBlocks;

std::uint32_t FirstOf(std::uint32_t bucket) { return bucket & kRefMask; }
std::uint32_t FilterBit(std::uint64_t key) { return 1u << (24 + (key & 7)); }
bool MayHold(std::uint32_t bucket, std::uint64_t key) { return (bucket & FilterBit(key)) != 0; }

void Demand(bool holds, const char* law) {
  if (!holds) throw std::logic_error(std::string("prefix index: ") + law);
}

}  // namespace

PrefixIndex::PrefixIndex(std::size_t max_bytes, std::uint32_t first_clock) : clock_(first_clock) {
  static_assert(sizeof(Node) == 40);
  max_blocks_ = static_cast<std::int64_t>(std::min(max_bytes / kBytesPerBlock, kMaxBlocks));
  nodes_.reserve(static_cast<std::size_t>(max_blocks_) + 1);  // untouched until it is used
  nodes_.push_back(Node{});
  buckets_.resize(static_cast<std::size_t>(max_blocks_ + max_blocks_ / 2) + 1);
}

std::int64_t PrefixIndex::num_bytes() const {
  return static_cast<std::int64_t>(nodes_.size() * sizeof(Node) + buckets_.size() * sizeof(Ref));
}

void PrefixIndex::AddEngine() {
  if (engines_.size() >= kMaxEngines) throw std::length_error("more than 8128 engines");
  engines_.push_back({clock_, 0});
}

void PrefixIndex::Clear(int engine) {
  // 2^32 clears: 64 engines with new weights every three seconds reach it after six years.
  if (clock_ == kLastClock) Wipe();
  newest_clear_ = ++clock_;
  engines_[engine] = {clock_, 0};
}

void PrefixIndex::Wipe() {
  nodes_.resize(1);
  nodes_[0] = Node{};
  std::fill(buckets_.begin(), buckets_.end(), 0);
  for (Engine& engine : engines_) engine = {};
  num_blocks_ = 0;
  free_ = 0;
  clock_ = newest_clear_ = 0;
}

std::uint64_t PrefixIndex::Salt(int bank, std::int64_t version) {
  return Mix(static_cast<std::uint64_t>(version) * 0x9e3779b97f4a7c15ULL +
             static_cast<std::uint64_t>(bank));
}

std::uint64_t PrefixIndex::Key(std::uint64_t hash, std::uint64_t salt) {
  return Fold(hash ^ salt, 0x9fb21c651e98df25ULL);
}

std::size_t PrefixIndex::Bucket(std::uint64_t key) const {
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<std::size_t>(static_cast<Wide>(key) * buckets_.size() >> 64);
}

PrefixIndex::Ref PrefixIndex::Find(std::uint64_t key) const {
  const std::uint32_t bucket = buckets_[Bucket(key)];
  if (!MayHold(bucket, key)) return 0;
  Ref ref = FirstOf(bucket);
  while (ref != 0 && nodes_[ref].key != key) ref = nodes_[ref].next_in_bucket;
  return ref;
}

// Memory that the blocks after this one will need: first the bucket, then its first node. Inline by
// force, as compilers drop calls that do nothing else.
__attribute__((always_inline)) inline void PrefixIndex::Prefetch(const std::uint64_t* chain,
                                                                 std::size_t n,
                                                                 std::uint64_t salt) const {
  if (n <= kAhead) return;
  __builtin_prefetch(&buckets_[Bucket(Key(chain[kAhead], salt))]);
  const std::uint64_t key = Key(chain[kAhead / 2], salt);
  const std::uint32_t bucket = buckets_[Bucket(key)];
  if (MayHold(bucket, key)) __builtin_prefetch(&nodes_[FirstOf(bucket)]);
}

std::uint64_t PrefixIndex::Fresh(const Node& node) const {
  if (node.stamp >= newest_clear_) return node.engines;
  std::uint64_t fresh = 0;
  const std::size_t first = node.bank * kBank;
  for (std::uint64_t left = node.engines; left != 0; left &= left - 1) {
    const int bit = __builtin_ctzll(left);
    if (node.stamp >= engines_[first + bit].cleared) fresh |= std::uint64_t{1} << bit;
  }
  return fresh;
}

void PrefixIndex::Match(const std::uint64_t* chain, std::size_t n, int bank, std::uint64_t engines,
                        std::int64_t version, std::int64_t* held) const {
  const std::uint64_t salt = Salt(bank, version);
  std::uint64_t left = engines;
  std::size_t block = 0;
  for (; block < n && left != 0; ++block) {
    Prefetch(chain + block, n - block, salt);
    const Ref ref = Find(Key(chain[block], salt));
    const std::uint64_t holders = ref == 0 ? 0 : Fresh(nodes_[ref]);
    for (std::uint64_t gone = left & ~holders; gone != 0; gone &= gone - 1)
      held[__builtin_ctzll(gone)] = static_cast<std::int64_t>(block);
    left &= holders;
  }
  for (; left != 0; left &= left - 1) held[__builtin_ctzll(left)] = static_cast<std::int64_t>(n);
}

bool PrefixIndex::Insert(const std::uint64_t* parent, const std::uint64_t* chain, std::size_t n,
                         int engine, std::int64_t version) {
  const int bank = engine / kBank;
  const std::uint64_t salt = Salt(bank, version);
  Ref at = 0;
  if (parent != nullptr) {
    at = Find(Key(*parent, salt));
    if (at == 0 || (Fresh(nodes_[at]) >> engine % kBank & 1) == 0) return false;
    Mark(at, engine);
  }
  for (std::size_t block = 0; block < n; ++block) {
    Prefetch(chain + block, n - block, salt);
    const std::uint64_t key = Key(chain[block], salt);
    Ref next = Find(key);
    // A known block behind a new one: their hashes are equal by chance.
    if (next != 0 && at != 0 && IsNew(at)) LinkNewest(at);
    if (next == 0) next = Create(key, at, bank);
    if (next == 0) break;  // this context alone fills the index
    Mark(next, engine);
    at = next;
  }
  if (at == 0) return true;
  if (nodes_[at].num_children > 0) {
    nodes_[at].is_end = 1;
  } else {
    Unlink(at);
    LinkNewest(at);
  }
  return true;
}

void PrefixIndex::Drop(const std::uint64_t* chain, std::size_t n, std::size_t kept, int engine,
                       std::int64_t version) {
  const std::uint64_t salt = Salt(engine / kBank, version);
  const std::uint64_t bit = std::uint64_t{1} << engine % kBank;
  for (std::size_t block = kept; block < n; ++block) {
    const Ref ref = Find(Key(chain[block], salt));
    if (ref == 0) continue;
    if ((Fresh(nodes_[ref]) & bit) != 0) --engines_[engine].num_held;
    nodes_[ref].engines &= ~bit;
  }
}

void PrefixIndex::Mark(Ref ref, int engine) {
  Node& node = nodes_[ref];
  node.engines = Fresh(node);
  node.stamp = clock_;
  const std::uint64_t bit = std::uint64_t{1} << engine % kBank;
  if ((node.engines & bit) == 0) ++engines_[engine].num_held;
  node.engines |= bit;
}

// A new node outside of the list. Its parent is no leaf from before room is made, or it might go.
PrefixIndex::Ref PrefixIndex::Create(std::uint64_t key, Ref parent, int bank) {
  if (parent != 0 && nodes_[parent].num_children++ == 0) Unlink(parent);
  const Ref ref = Take();
  if (ref == 0) {
    if (parent != 0) --nodes_[parent].num_children;
    return 0;
  }
  Node& node = nodes_[ref];
  node = Node{};
  node.key = key;
  node.older = node.newer = ref;
  node.parent = parent;
  node.stamp = clock_;
  node.bank = static_cast<std::uint32_t>(bank) & 127;
  std::uint32_t& bucket = buckets_[Bucket(key)];
  node.next_in_bucket = FirstOf(bucket);
  bucket = (bucket & ~kRefMask) | FilterBit(key) | ref;
  ++num_blocks_;
  return ref;
}

PrefixIndex::Ref PrefixIndex::Take() {
  if (num_blocks_ == max_blocks_ && !MakeRoom()) return 0;
  if (free_ == 0) {
    nodes_.push_back(Node{});
    return static_cast<Ref>(nodes_.size() - 1);
  }
  const Ref ref = free_;
  free_ = nodes_[ref].next_in_bucket;
  return ref;
}

// Evicts some leaves, oldest first; false when there is none. Several at a time, so that their
// buckets come from memory together.
bool PrefixIndex::MakeRoom() {
  Ref gone[kMaxBatch];
  const auto wanted = std::clamp<std::int64_t>(max_blocks_ / 1024, 1, kMaxBatch);
  int n = 0;
  for (Ref ref = nodes_[0].newer; n < wanted && ref != 0; ref = nodes_[0].newer) {
    Node& node = nodes_[ref];
    __builtin_prefetch(&buckets_[Bucket(node.key)]);
    Unlink(ref);
    ForgetBits(&node);
    if (node.parent != 0 && --nodes_[node.parent].num_children == 0) BecomeLeaf(node.parent);
    gone[n++] = ref;
  }
  for (int i = 0; i < n; ++i) {
    const Ref first = FirstOf(buckets_[Bucket(nodes_[gone[i]].key)]);
    if (first != gone[i]) __builtin_prefetch(&nodes_[first]);
  }
  for (int i = 0; i < n; ++i) Free(gone[i]);
  return n > 0;
}

void PrefixIndex::Free(Ref ref) {
  std::uint32_t& bucket = buckets_[Bucket(nodes_[ref].key)];
  const Ref next = nodes_[ref].next_in_bucket;
  if (FirstOf(bucket) == ref) {
    bucket = next == 0 ? 0 : (bucket & ~kRefMask) | next;
  } else {
    Ref before = FirstOf(bucket);
    while (nodes_[before].next_in_bucket != ref) before = nodes_[before].next_in_bucket;
    nodes_[before].next_in_bucket = next;
  }
  nodes_[ref].next_in_bucket = free_;
  free_ = ref;
  --num_blocks_;
}

void PrefixIndex::ForgetBits(Node* node) {
  const std::size_t first = node->bank * kBank;
  for (std::uint64_t left = Fresh(*node); left != 0; left &= left - 1)
    --engines_[first + __builtin_ctzll(left)].num_held;
  node->engines = 0;
}

void PrefixIndex::BecomeLeaf(Ref ref) {
  if (nodes_[ref].is_end != 0) {
    nodes_[ref].is_end = 0;
    LinkNewest(ref);
  } else {
    LinkOldest(ref);
  }
}

// A leaf that is not in the list yet.
bool PrefixIndex::IsNew(Ref ref) const {
  return nodes_[ref].num_children == 0 && nodes_[ref].older == ref;
}

void PrefixIndex::Unlink(Ref ref) {
  Node& node = nodes_[ref];
  nodes_[node.older].newer = node.newer;
  nodes_[node.newer].older = node.older;
  node.older = node.newer = ref;
}

// nodes_[0].older is the newest leaf, nodes_[0].newer the oldest: the list is a ring through it.
void PrefixIndex::LinkNewest(Ref ref) {
  Node& node = nodes_[ref];
  node.newer = 0;
  node.older = nodes_[0].older;
  nodes_[node.older].newer = ref;
  nodes_[0].older = ref;
}

void PrefixIndex::LinkOldest(Ref ref) {
  Node& node = nodes_[ref];
  node.older = 0;
  node.newer = nodes_[0].newer;
  nodes_[node.newer].older = ref;
  nodes_[0].newer = ref;
}

void PrefixIndex::Verify() const {
  Demand(num_blocks_ <= max_blocks_, "more blocks than the cap allows");
  std::vector<std::uint32_t> children(nodes_.size());
  std::vector<std::int64_t> held(engines_.size());
  std::int64_t num_leaves = 0, num_blocks = 0, num_listed = 0;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (Ref ref = FirstOf(buckets_[bucket]); ref != 0; ref = nodes_[ref].next_in_bucket) {
      const Node& node = nodes_[ref];
      Demand(Bucket(node.key) == bucket, "a node lies in a wrong bucket");
      Demand(MayHold(buckets_[bucket], node.key), "a bucket denies its node");
      Demand(node.parent == 0 || Find(nodes_[node.parent].key) == node.parent,
             "a parent went before its child");
      ++children[node.parent];
      ++num_blocks;
      num_leaves += node.num_children == 0;
      for (std::uint64_t left = Fresh(node); left != 0; left &= left - 1)
        ++held[node.bank * kBank + __builtin_ctzll(left)];
    }
  }
  for (const std::uint32_t bucket : buckets_)
    for (Ref ref = FirstOf(bucket); ref != 0; ref = nodes_[ref].next_in_bucket)
      Demand(children[ref] == nodes_[ref].num_children, "children miscounted");
  for (Ref ref = nodes_[0].newer; ref != 0; ref = nodes_[ref].newer, ++num_listed)
    Demand(nodes_[ref].num_children == 0, "an inner node is in the list of leaves");
  Demand(num_blocks == num_blocks_, "blocks miscounted");
  Demand(num_listed == num_leaves, "leaves are missing from their list");
  for (std::size_t i = 0; i < held.size(); ++i)
    Demand(held[i] == engines_[i].num_held, "held blocks miscounted");
}

}  // namespace agentmath::rollout
