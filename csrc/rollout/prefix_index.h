// Which engine has cached which prefix, as far as we sent it there: an approximate radix tree in
// flat memory with a hard cap.
//
// One node for each block, found by the chained hash of its prefix, salted with the version of the
// weights: a hit never crosses versions, and a new version makes an engine's nodes unreachable at
// no cost. A node holds one bit for each engine of a bank of 64; more engines are more banks, each
// with nodes of its own.
//
// Memory is a pool of nodes and a table of buckets, both made once for the cap. Only leaves are in
// the list of what may go, least recently used first; a node whose last child went becomes a leaf
// and goes next, unless a context ended there since. So what is left is always a tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace agentmath::rollout {

class PrefixIndex {
 public:
  static constexpr int kBank = 64;
  static constexpr int kMaxEngines = 127 * kBank;

  // At most max_bytes, 46 for each block. first_clock is for tests.
  explicit PrefixIndex(std::size_t max_bytes, std::uint32_t first_clock = 0);

  // Engine 0, then 1, ... Throws std::length_error above kMaxEngines.
  void AddEngine();
  // What the engine holds is void: its bits count no more, and are cleared where they are met.
  void Clear(int engine);

  // For each engine of the bank whose bit is in `engines`: how many leading blocks of chain it
  // holds, into held[bit]. Other entries are not written.
  void Match(const std::uint64_t* chain, std::size_t n, int bank, std::uint64_t engines,
             std::int64_t version, std::int64_t* held) const;

  // The engine holds chain now. When parent is given, chain continues it; false, with nothing
  // changed, where the engine is not known to hold that.
  bool Insert(const std::uint64_t* parent, const std::uint64_t* chain, std::size_t n, int engine,
              std::int64_t version);
  // The engine holds no more than the first `kept` blocks of chain.
  void Drop(const std::uint64_t* chain, std::size_t n, std::size_t kept, int engine,
            std::int64_t version);

  std::int64_t num_blocks() const { return num_blocks_; }
  std::int64_t max_blocks() const { return max_blocks_; }
  std::int64_t num_bytes() const;
  // Blocks that the engine holds.
  std::int64_t num_held(int engine) const { return engines_[engine].num_held; }

  // Checks links, counts and the cap by brute force; throws std::logic_error.
  void Verify() const;

 private:
  using Ref = std::uint32_t;  // of a node; 0 is none, and the ends of the list of leaves
  struct Node {
    std::uint64_t key = 0;
    std::uint64_t engines = 0;
    Ref older = 0;  // both point to the node itself where it is not in the list
    Ref newer = 0;
    Ref next_in_bucket = 0;  // or next free one
    Ref parent = 0;
    std::uint32_t stamp = 0;  // clock when `engines` was last cleaned
    std::uint32_t num_children : 24;
    std::uint32_t bank : 7;
    std::uint32_t is_end : 1;  // a context ended here since this became an inner node
  };
  struct Engine {
    std::uint32_t cleared = 0;  // clock; bits of nodes with an older stamp are void
    std::int64_t num_held = 0;
  };

  static std::uint64_t Salt(int bank, std::int64_t version);
  static std::uint64_t Key(std::uint64_t hash, std::uint64_t salt);
  std::size_t Bucket(std::uint64_t key) const;
  Ref Find(std::uint64_t key) const;
  void Prefetch(const std::uint64_t* chain, std::size_t n, std::uint64_t salt) const;
  std::uint64_t Fresh(const Node& node) const;
  void Mark(Ref ref, int engine);
  Ref Create(std::uint64_t key, Ref parent, int bank);
  Ref Take();
  bool MakeRoom();
  void Free(Ref ref);
  void ForgetBits(Node* node);
  bool IsNew(Ref ref) const;
  void Unlink(Ref ref);
  void LinkNewest(Ref ref);
  void LinkOldest(Ref ref);
  void BecomeLeaf(Ref ref);
  void Wipe();

  std::int64_t max_blocks_;
  std::int64_t num_blocks_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> buckets_;
  std::vector<Engine> engines_;
  Ref free_ = 0;
  std::uint32_t clock_;
  std::uint32_t newest_clear_ = 0;
};

}  // namespace agentmath::rollout
