// Chained hashes of prompt blocks: hash i covers blocks 0..i, so equal hashes mean equal prefixes
// but for one chance in 2^64 for each pair of prefixes that are compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace agentmath::rollout {

constexpr std::uint64_t kEmptyPrefix = 0x2545f4914f6cdd1dULL;

// Both halves of the product, folded: the one operation that all hashes here are made of.
inline std::uint64_t Fold(std::uint64_t a, std::uint64_t b) {
  __extension__ typedef unsigned __int128 Wide;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// SplitMix64's finaliser (Steele, Lea, Flood, "Fast splittable pseudorandom number generators"): a
// bijection, each bit of which depends on all bits of x.
inline std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
  return x ^ x >> 31;
}

inline std::uint64_t HashName(std::uint64_t prefix, std::uint64_t name) {
  return Mix(prefix + 0x9e3779b97f4a7c15ULL + Mix(name));
}

inline std::uint64_t HashTokens(std::uint64_t prefix, const std::int32_t* tokens, std::size_t n) {
  std::uint64_t hash = prefix;
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    std::uint64_t words[2];
    std::memcpy(words, tokens + i, sizeof words);
    hash = Fold(hash ^ words[0] ^ 0xa0761d6478bd642fULL, words[1] ^ 0xe7037ed1a0b428dbULL) + hash;
  }
  for (; i < n; ++i) hash = HashName(hash, static_cast<std::uint32_t>(tokens[i]));
  return Mix(hash);
}

// What a request says about its context, in blocks: ids, names or nothing.
struct Blocks {
  const std::int32_t* tokens = nullptr;
  const std::uint64_t* names = nullptr;
  std::size_t num_blocks = 0;  // whole ones
  std::size_t block_tokens = 1;

  std::uint64_t Hash(std::uint64_t prefix, std::size_t block) const {
    if (names != nullptr) return HashName(prefix, names[block]);
    return HashTokens(prefix, tokens + block * block_tokens, block_tokens);
  }

  // Hashes of blocks from..num_blocks-1, put into chain; prefix covers those before.
  void HashFrom(std::size_t from, std::uint64_t prefix, std::vector<std::uint64_t>* chain) const {
    chain->clear();
    for (std::size_t block = from; block < num_blocks; ++block) {
      prefix = Hash(prefix, block);
      chain->push_back(prefix);
    }
  }
};

}  // namespace agentmath::rollout
