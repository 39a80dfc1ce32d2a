#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "check.h"
#include "rollout/prefix_hash.h"
#include "rollout/prefix_index.h"

using namespace agentmath::rollout;

namespace {

constexpr std::size_t kRoomy = 1 << 20;
using Chain = std::vector<std::uint64_t>;

// Hashes of a context whose blocks have these names.
Chain ChainOf(const std::vector<std::uint64_t>& names) {
  Chain chain;
  Blocks{nullptr, names.data(), names.size(), 1}.HashFrom(0, kEmptyPrefix, &chain);
  return chain;
}

std::int64_t Held(const PrefixIndex& index, const Chain& chain, int engine, std::int64_t version) {
  std::int64_t held[PrefixIndex::kBank] = {};
  const int bit = engine % PrefixIndex::kBank;
  index.Match(chain.data(), chain.size(), engine / PrefixIndex::kBank, std::uint64_t{1} << bit,
              version, held);
  return held[bit];
}

PrefixIndex WithEngines(int num_engines, std::size_t max_bytes) {
  PrefixIndex index(max_bytes);
  for (int i = 0; i < num_engines; ++i) index.AddEngine();
  return index;
}

void Insert(PrefixIndex* index, const Chain& chain, int engine, std::int64_t version = 0) {
  CHECK(index->Insert(nullptr, chain.data(), chain.size(), engine, version));
}

// What an engine holds, as a set of prefixes.
struct Reference {
  std::set<std::tuple<int, std::int64_t, std::uint64_t>> held;

  std::int64_t Held(const Chain& chain, int engine, std::int64_t version) const {
    std::size_t n = 0;
    while (n < chain.size() && held.count({engine, version, chain[n]}) != 0) ++n;
    return static_cast<std::int64_t>(n);
  }
  void Clear(int engine) {
    for (auto it = held.begin(); it != held.end();)
      it = std::get<0>(*it) == engine ? held.erase(it) : std::next(it);
  }
};

// Random contexts over few names, so that prefixes are shared; returns the chain.
Chain Draw(std::mt19937* random) {
  std::vector<std::uint64_t> names((*random)() % 7);
  for (std::uint64_t& name : names) name = (*random)() % 3;
  return ChainOf(names);
}

}  // namespace

TEST(PrefixIndexMatchesASetOfPrefixesWhenNothingIsEvicted) {
  std::mt19937 random(1);
  PrefixIndex index = WithEngines(70, kRoomy);
  Reference reference;
  for (int step = 0; step < 4000; ++step) {
    const int engine = static_cast<int>(random() % 4) * 23;  // in two banks
    const std::int64_t version = random() % 2;
    const Chain chain = Draw(&random);
    switch (random() % 8) {
      case 0:
        index.Clear(engine);
        reference.Clear(engine);
        break;
      case 1: {
        const std::size_t kept = chain.empty() ? 0 : random() % chain.size();
        index.Drop(chain.data(), chain.size(), kept, engine, version);
        for (std::size_t i = kept; i < chain.size(); ++i)
          reference.held.erase({engine, version, chain[i]});
        break;
      }
      default:
        Insert(&index, chain, engine, version);
        for (const std::uint64_t hash : chain) reference.held.insert({engine, version, hash});
    }
    const Chain asked = Draw(&random);
    for (int k = 0; k < 70; k += 23)
      CHECK_EQUAL(Held(index, asked, k, version), reference.Held(asked, k, version));
    if (step % 100 == 0) index.Verify();
  }
}

TEST(PrefixIndexNeverExceedsItsCapAndNeverClaimsMoreThanWasInserted) {
  for (const std::int64_t cap : {0, 1, 2, 5, 40}) {
    std::mt19937 random(2);
    PrefixIndex index = WithEngines(2, static_cast<std::size_t>(cap) * 46);
    CHECK_EQUAL(index.max_blocks(), cap);
    Reference reference;
    for (int step = 0; step < 3000; ++step) {
      const int engine = static_cast<int>(random() % 2);
      const Chain chain = Draw(&random);
      Insert(&index, chain, engine);
      for (const std::uint64_t hash : chain) reference.held.insert({engine, 0, hash});
      index.Verify();
      CHECK(index.num_blocks() <= cap);
      const Chain asked = Draw(&random);
      CHECK(Held(index, asked, engine, 0) <= reference.Held(asked, engine, 0));
      // What was just inserted is there, as far as it fits.
      CHECK_EQUAL(Held(index, chain, engine, 0),
                  std::min(cap, static_cast<std::int64_t>(chain.size())));
    }
  }
}

TEST(PrefixIndexEvictsLeavesBeforeTheirParentsAndTheLeastRecentlyUsedFirst) {
  PrefixIndex index = WithEngines(1, 4 * 46);
  const Chain left = ChainOf({1, 2}), right = ChainOf({1, 3}), other = ChainOf({9, 9});
  Insert(&index, left, 0);
  Insert(&index, right, 0);
  Insert(&index, left, 0);   // right's leaf is now the oldest
  Insert(&index, other, 0);  // needs two blocks; one is free
  CHECK_EQUAL(Held(index, left, 0, 0), 2);
  CHECK_EQUAL(Held(index, right, 0, 0), 1);
  CHECK_EQUAL(Held(index, other, 0, 0), 2);
}

TEST(PrefixIndexKeepsAPrefixThatWasUsedAfterItsContinuations) {
  PrefixIndex index = WithEngines(1, 3 * 46);
  const Chain prompt = ChainOf({1}), longer = ChainOf({1, 2});
  Insert(&index, longer, 0);
  Insert(&index, ChainOf({5}), 0);
  Insert(&index, prompt, 0);           // an inner node, and now more recent than {5}
  Insert(&index, ChainOf({6, 7}), 0);  // evicts {1, 2}, then {5}
  CHECK_EQUAL(Held(index, longer, 0, 0), 1);
  CHECK_EQUAL(Held(index, ChainOf({5}), 0, 0), 0);
}

TEST(PrefixIndexHitsNeverCrossVersions) {
  PrefixIndex index = WithEngines(1, kRoomy);
  const Chain chain = ChainOf({1, 2, 3});
  Insert(&index, chain, 0, 7);
  CHECK_EQUAL(Held(index, chain, 0, 7), 3);
  for (const std::int64_t version :
       {INT64_MIN, std::int64_t{-7}, std::int64_t{0}, std::int64_t{6}, std::int64_t{8}, INT64_MAX})
    CHECK_EQUAL(Held(index, chain, 0, version), 0);
}

TEST(PrefixIndexClearIsOfOneEngine) {
  PrefixIndex index = WithEngines(130, kRoomy);
  const Chain chain = ChainOf({1, 2, 3});
  for (int engine = 0; engine < 130; ++engine) Insert(&index, chain, engine);
  index.Clear(65);
  for (int engine = 0; engine < 130; ++engine)
    CHECK_EQUAL(Held(index, chain, engine, 0), engine == 65 ? 0 : 3);
  CHECK_EQUAL(index.num_held(65), 0);
  CHECK_EQUAL(index.num_held(64), 3);
  // Another engine's use of the blocks does not bring them back.
  Insert(&index, chain, 64);
  CHECK_EQUAL(Held(index, chain, 65, 0), 0);
  index.Verify();
}

TEST(PrefixIndexContinuesAPrefixOnlyWhereTheEngineHoldsIt) {
  PrefixIndex index = WithEngines(2, kRoomy);
  const Chain chain = ChainOf({1, 2, 3, 4});
  Insert(&index, {chain[0], chain[1]}, 0);
  CHECK(index.Insert(&chain[1], &chain[2], 2, 0, 0));
  CHECK_EQUAL(Held(index, chain, 0, 0), 4);
  CHECK(!index.Insert(&chain[1], &chain[2], 2, 1, 0));
  CHECK(!index.Insert(&chain[1], &chain[2], 2, 0, 1));
  CHECK_EQUAL(index.num_blocks(), 4);
}

TEST(PrefixIndexSurvivesEqualHashes) {
  std::mt19937 random(3);
  PrefixIndex index = WithEngines(3, 6 * 46);
  for (int step = 0; step < 5000; ++step) {
    Chain chain(random() % 9);
    for (std::uint64_t& hash : chain) hash = random() % 4;  // cycles and wrong parents
    const int engine = static_cast<int>(random() % 3);
    Insert(&index, chain, engine);
    if (random() % 50 == 0) index.Clear(engine);
    CHECK(Held(index, chain, engine, 0) <= static_cast<std::int64_t>(chain.size()));
    index.Verify();
  }
}

TEST(PrefixIndexStartsAnewWhenItsClockEnds) {
  PrefixIndex index(kRoomy, UINT32_MAX - 1);
  index.AddEngine();
  index.AddEngine();
  const Chain chain = ChainOf({1, 2});
  for (int i = 0; i < 5; ++i) {
    Insert(&index, chain, 0);
    Insert(&index, chain, 1);
    index.Clear(0);
    CHECK_EQUAL(Held(index, chain, 0, 0), 0);
    index.Verify();
  }
  Insert(&index, chain, 0);
  CHECK_EQUAL(Held(index, chain, 0, 0), 2);
}

TEST(PrefixIndexMemoryIsFlatUnderChurn) {
  PrefixIndex index = WithEngines(4, 1000 * 46);
  std::mt19937_64 random(4);
  std::int64_t bytes = 0;
  for (int step = 0; step < 20000; ++step) {
    std::vector<std::uint64_t> names(20);
    for (std::uint64_t& name : names) name = random();
    Insert(&index, ChainOf(names), static_cast<int>(random() % 4));
    if (step == 1000) bytes = index.num_bytes();
    if (step > 1000) CHECK_EQUAL(index.num_bytes(), bytes);
  }
  CHECK(bytes <= 1000 * 50);
  index.Verify();
}

TEST(BlockHashesDependOnEveryTokenAndOnTheirOrder) {
  std::vector<std::int32_t> tokens(19);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 31);
  const std::uint64_t hash = HashTokens(kEmptyPrefix, tokens.data(), tokens.size());
  CHECK_EQUAL(hash, HashTokens(kEmptyPrefix, tokens.data(), tokens.size()));
  CHECK(hash != HashTokens(hash, tokens.data(), tokens.size()));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    auto changed = tokens;
    changed[i] ^= 1;
    CHECK(hash != HashTokens(kEmptyPrefix, changed.data(), changed.size()));
    for (std::size_t j = 0; j < i; ++j) {
      changed = tokens;
      std::swap(changed[i], changed[j]);
      CHECK(hash != HashTokens(kEmptyPrefix, changed.data(), changed.size()));
    }
  }
}
