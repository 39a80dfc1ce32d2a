#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "check.h"
#include "rollout/balancer.h"
#include "rollout/balancer_requests.h"

using namespace agentmath::rollout;

namespace {

bool IsRefused(void (*change)(BalancerSettings*)) {
  BalancerSettings settings;
  change(&settings);
  try {
    const Balancer balancer(settings);
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

}  // namespace

TEST(WeightIsTheFloorOfTheLengthPlusTheBase) {
  BalancerSettings settings = Of(Policy::kAgentMath);
  settings.base_tokens = 100;
  settings.base_weight = 0.5;
  Balancer balancer(settings);
  AddEngines(&balancer, 1);
  for (const auto& [tokens, halves] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 1}, {99, 1}, {100, 3}, {199, 3}, {200, 5}}) {
    const Placement place = balancer.Acquire(ByLength(1, tokens), 0);
    CHECK_EQUAL(balancer.Look(0).weight, halves * kWeightUnit / 2);
    balancer.Release(place.lease, Ending::kFinished, 0);
  }
  CHECK_EQUAL(Weights(balancer), 0);
}

TEST(AgentMathNeverLeavesItsEngineAndBreakableDoesWhenItIsCrowded) {
  for (const Policy policy : {Policy::kAgentMath, Policy::kBreakable}) {
    Balancer balancer(Of(policy));
    AddEngines(&balancer, 2);
    const Placement first = balancer.Acquire(ByLength(1, 10), 0);
    CHECK_EQUAL(first.engine, 0);
    CHECK(first.is_new);
    balancer.Pause(first.lease, 0);
    // Others fill its engine: 0 and 1 alternate, then those at 1 end.
    std::vector<std::int64_t> elsewhere;
    for (int i = 0; i < 8; ++i) {
      const Placement place = balancer.Acquire(ByLength(10 + i, 10), 0);
      if (place.engine == 1) elsewhere.push_back(place.lease);
    }
    CHECK_EQUAL(elsewhere.size(), 4u);
    for (const std::int64_t lease : elsewhere) balancer.Release(lease, Ending::kFinished, 0);
    // W_home = 5, W_min = 0, w = 1: 5 > 1.2 x 0 + 1 + 2.
    const Placement again = balancer.Acquire(ByLength(1, 20), 0);
    CHECK_EQUAL(again.engine, policy == Policy::kAgentMath ? 0 : 1);
    CHECK_EQUAL(again.has_moved, policy == Policy::kBreakable);
    CHECK_EQUAL(Weights(balancer), 5 * kWeightUnit);
    balancer.Verify();
  }
}

TEST(BreakableStaysWhereTheRuleHoldsExactly) {
  Balancer balancer(Of(Policy::kBreakable));
  AddEngines(&balancer, 2);
  std::vector<Placement> places;
  for (int i = 0; i < 6; ++i) places.push_back(balancer.Acquire(ByLength(1 + i, 10), 0));
  for (const Placement& place : places)
    if (place.engine == 1) balancer.Release(place.lease, Ending::kFinished, 0);
  // W_home = 3 with its own, W_min = 0, w = 1: 3 > 3 is false.
  balancer.Pause(places[0].lease, 0);
  CHECK_EQUAL(balancer.Acquire(ByLength(1, 10), 0).engine, 0);
}

TEST(BreakableLeavesAboveTheFactorTimesTheLowestLoad) {
  // W_min = 10, w = 1: the bound is 1.2 x 10 + 1 + 2 = 15.
  for (const int num_at_home : {15, 16}) {
    Balancer balancer(Of(Policy::kBreakable));
    AddEngines(&balancer, 2);
    std::int64_t own = 0, session = 1;
    balancer.Drain(1);
    for (int i = 0; i < num_at_home; ++i) {
      const std::int64_t lease = balancer.Acquire(ByLength(session++, 10), 0).lease;
      if (i == 0) own = lease;
    }
    balancer.EngineUp(1);
    for (int i = 0; i < 10; ++i)
      CHECK_EQUAL(balancer.Acquire(ByLength(session++, 10), 0).engine, 1);
    balancer.Pause(own, 0);
    CHECK_EQUAL(balancer.Acquire(ByLength(1, 10), 0).engine, num_at_home == 15 ? 0 : 1);
  }
}

TEST(BreakableWeighsWhatIsNotCached) {
  // Engine 1 has the load 1 and the prompt, engine 0 neither.
  BalancerSettings settings = Of(Policy::kBreakable);
  settings.base_tokens = 64;
  settings.miss_weight = 3;
  Balancer balancer(settings);
  AddEngines(&balancer, 2);
  const std::vector<std::int32_t> prompt(32, 1), other(32, 2);
  balancer.Drain(0);
  CHECK_EQUAL(balancer.Acquire(ByTokens(kNoSession, prompt), 0).engine, 1);
  balancer.EngineUp(0);
  // 0 + 3 x 32 / 64 against 1 + 0: the cache wins; for another prompt the load does.
  const Placement cached = balancer.Acquire(ByTokens(kNoSession, prompt), 0);
  CHECK_EQUAL(cached.engine, 1);
  CHECK_EQUAL(cached.hit_tokens, 32);
  CHECK_EQUAL(balancer.Acquire(ByTokens(kNoSession, other), 0).engine, 0);
}

TEST(LeasesEndOnceAndUnknownOnesAreErrors) {
  Balancer balancer(Of(Policy::kBreakable));
  AddEngines(&balancer, 1);
  const Placement place = balancer.Acquire(ByLength(kNoSession, 10), 0);
  CHECK(balancer.Release(place.lease, Ending::kFinished, 0));
  CHECK(!balancer.Release(place.lease, Ending::kFinished, 0));
  CHECK(!balancer.Release(place.lease, Ending::kFailed, 0));
  CHECK(!balancer.Progress(place.lease, 20));
  CHECK(!balancer.Pause(place.lease, 0));
  CHECK_EQUAL(balancer.GetStats().num_late, 4u);
  CHECK(balancer.Look(0).breaker == Breaker::kClosed);
  for (const std::int64_t unknown : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1},
                                     place.lease + 1, place.lease * 2, INT64_MIN, INT64_MAX})
    CHECK_THROWS(std::invalid_argument, balancer.Release(unknown, Ending::kFinished, 0));
  // A slot that is used again has another number.
  CHECK(balancer.Acquire(ByLength(kNoSession, 10), 0).lease != place.lease);
  CHECK(!balancer.Release(place.lease, Ending::kFinished, 0));
  CHECK_EQUAL(balancer.Look(0).num_running, 1);
}

TEST(SettingsThatCannotBeAreRefusedByName) {
  CHECK(IsRefused([](BalancerSettings* s) { s->base_tokens = 0; }));
  CHECK(IsRefused([](BalancerSettings* s) { s->base_tokens = -1; }));
  CHECK(IsRefused([](BalancerSettings* s) { s->base_weight = std::nan(""); }));
  CHECK(IsRefused([](BalancerSettings* s) { s->base_weight = -1; }));
  CHECK(IsRefused([](BalancerSettings* s) { s->leave_factor = 0.5; }));
  CHECK(IsRefused([](BalancerSettings* s) { s->leave_slack = std::nan(""); }));
  CHECK(IsRefused([](BalancerSettings* s) { s->miss_weight = -0.1; }));
  CHECK(IsRefused([](BalancerSettings* s) { s->kv_share = 0; }));
  CHECK(IsRefused([](BalancerSettings* s) { s->kv_share = 1.5; }));
  CHECK(IsRefused([](BalancerSettings* s) { s->block_tokens = 0; }));
  CHECK(IsRefused([](BalancerSettings* s) { s->max_sessions = 0; }));
  CHECK(IsRefused([](BalancerSettings* s) { s->breaker_failures = -1; }));
  CHECK(IsRefused([](BalancerSettings* s) { s->breaker_nanoseconds = INT64_MAX; }));
  CHECK(!IsRefused([](BalancerSettings* s) { s->base_weight = 0; }));
  Balancer balancer(Of(Policy::kLeast));
  for (const double capacity : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK_THROWS(std::invalid_argument, balancer.AddEngine({capacity, 0, 0}));
  CHECK_THROWS(std::invalid_argument, balancer.AddEngine({1, -1, 0}));
  CHECK_THROWS(std::invalid_argument, balancer.EngineDown(0));
  CHECK_THROWS(std::invalid_argument, PolicyFromName("fastest"));
  for (int i = 0; i < kNumPolicies; ++i)
    CHECK(PolicyFromName(PolicyName(static_cast<Policy>(i))) == static_cast<Policy>(i));
}

TEST(RequestsThatCannotBeAreRefusedAndChangeNothing) {
  BalancerSettings settings = Of(Policy::kBreakable);
  settings.base_tokens = 1;
  Balancer balancer(settings);
  AddEngines(&balancer, 1);
  for (const std::int64_t length : {std::int64_t{-1}, INT64_MIN, INT64_MAX, std::int64_t{1} << 40})
    CHECK_THROWS(std::invalid_argument, balancer.Acquire(ByLength(1, length), 0));
  CHECK_THROWS(std::invalid_argument, balancer.Acquire(ByLength(1, 1 << 23), 0));  // w above 2^22
  const std::uint64_t name = 1;
  Request request = ByLength(1, 16);
  request.blocks = &name;
  request.num_blocks = 2;
  CHECK_THROWS(std::invalid_argument, balancer.Acquire(request, 0));
  request = ByLength(1, 5);
  request.group = 1;
  request.group_tokens = 6;
  CHECK_THROWS(std::invalid_argument, balancer.Acquire(request, 0));
  CHECK_EQUAL(balancer.GetStats().num_leases, 0);
  const Placement place = balancer.Acquire(ByLength(1, 1), 0);
  CHECK_THROWS(std::invalid_argument, balancer.Progress(place.lease, -1));
  CHECK_EQUAL(Weights(balancer), 2 * kWeightUnit);
}

TEST(EmptyAndShortPromptsHitNothingAndAreNotIndexed) {
  Balancer balancer(Of(Policy::kBreakable));
  AddEngines(&balancer, 1);
  for (const std::size_t length : {0u, 15u}) {
    const std::vector<std::int32_t> tokens(length, 7);
    for (int i = 0; i < 2; ++i)
      CHECK_EQUAL(balancer.Acquire(ByTokens(kNoSession, tokens), 0).hit_tokens, 0);
  }
  CHECK_EQUAL(balancer.GetStats().num_blocks, 0);
  CHECK_EQUAL(Weights(balancer), 4 * kWeightUnit);
}

TEST(AContextThatDoesNotContinueCountsAsNew) {
  Balancer balancer(Of(Policy::kBreakable));
  AddEngines(&balancer, 1);
  std::vector<std::int32_t> tokens(48, 1);
  balancer.Release(balancer.Acquire(ByTokens(1, tokens), 0).lease, Ending::kFinished, 0);
  tokens[40] = 2;
  CHECK_EQUAL(balancer.Acquire(ByTokens(1, tokens), 0).hit_tokens, 32);
  tokens.resize(20);
  CHECK_EQUAL(balancer.Acquire(ByTokens(1, tokens), 0).hit_tokens, 16);
}

TEST(AHotPromptIsSpreadOverTheEngines) {
  Balancer balancer(Of(Policy::kBreakable));
  AddEngines(&balancer, 4);
  const std::vector<std::int32_t> tokens(1024, 3);
  for (int n = 1; n <= 512; ++n) balancer.Acquire(ByTokens(n, tokens), 0);
  for (int k = 0; k < 4; ++k) CHECK_EQUAL(balancer.Look(k).num_running, 128);
}

TEST(AMillionSessionsWithTenThousandRemembered) {
  BalancerSettings settings = Of(Policy::kBreakable);
  settings.max_sessions = 10000;
  Balancer balancer(settings);
  AddEngines(&balancer, 8);
  std::int64_t bytes = 0;
  for (int n = 1; n <= 1000000; ++n) {
    balancer.Release(balancer.Acquire(ByLength(n, 100), 0).lease, Ending::kFinished, 0);
    if (n == 20000) bytes = balancer.GetStats().num_session_bytes;
  }
  const BalancerStats stats = balancer.GetStats();
  CHECK_EQUAL(stats.num_sessions, 10000);
  CHECK_EQUAL(stats.num_session_bytes, bytes);
  CHECK(bytes <= 10000 * 100);
  CHECK(balancer.Acquire(ByLength(1, 100), 0).is_new);
  CHECK(!balancer.Acquire(ByLength(1000000, 100), 0).is_new);
}

TEST(EveryNumberButOneIsASession) {
  for (int i = 0; i < kNumPolicies; ++i) {
    Balancer balancer(Of(static_cast<Policy>(i)));
    AddEngines(&balancer, 1);
    for (const std::int64_t session : {std::int64_t{0}, std::int64_t{-1}, INT64_MAX, -INT64_MAX}) {
      balancer.Pause(balancer.Acquire(ByLength(session, 10), 0).lease, 0);
      CHECK_EQUAL(balancer.Look(0).num_paused, 1);
      CHECK(!balancer.Acquire(ByLength(session, 10), 0).is_new);
      CHECK(balancer.EndSession(session));
    }
    CHECK(!balancer.EndSession(kNoSession));
    const Placement place = balancer.Acquire(ByLength(kNoSession, 10), 0);
    balancer.Pause(place.lease, 0);  // there is no turn to come
    CHECK_EQUAL(balancer.Look(0).num_paused, 0);
  }
}

TEST(ASessionMayHaveSeveralRequestsAtOnceAndKeepsOnePausedLease) {
  Balancer balancer(Of(Policy::kBreakable));
  AddEngines(&balancer, 1);
  const Placement a = balancer.Acquire(ByLength(1, 10), 0),
                  b = balancer.Acquire(ByLength(1, 20), 0);
  balancer.Pause(a.lease, 0);
  balancer.Pause(b.lease, 0);
  CHECK_EQUAL(balancer.EngineOf(a.lease), kNoEngine);
  CHECK_EQUAL(balancer.Look(0).context_tokens, 20);
  CHECK(balancer.EndSession(1));
  CHECK(!balancer.EndSession(1));
  CHECK_EQUAL(Weights(balancer), 0);
  CHECK_EQUAL(balancer.GetStats().num_sessions, 0);
  balancer.Verify();
}
