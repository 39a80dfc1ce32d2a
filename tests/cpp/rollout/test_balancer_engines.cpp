// Engines that come, go, drain, fail, are unequal, full, many, or have new weights.
#include <cstdint>
#include <string>
#include <vector>

#include "check.h"
#include "rollout/balancer.h"
#include "rollout/balancer_requests.h"

using namespace agentmath::rollout;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

}  // namespace

TEST(NoEngineAndOneEngine) {
  for (int i = 0; i < kNumPolicies; ++i) {
    Balancer balancer(Of(static_cast<Policy>(i)));
    CHECK(balancer.Acquire(ByLength(1, 10), 0).admission == Admission::kNoEngine);
    AddEngines(&balancer, 1);
    for (int n = 0; n < 20; ++n)
      CHECK_EQUAL(balancer.Acquire(ByLength(n % 3, 10 * n), 0).engine, 0);
    balancer.EngineDown(0);
    const Placement none = balancer.Acquire(ByLength(1, 10), 0);
    CHECK(none.admission == Admission::kNoEngine);
    CHECK_EQUAL(none.retry_nanoseconds, 0);
    balancer.EngineUp(0);
    CHECK_EQUAL(balancer.Acquire(ByLength(1, 10), 0).engine, 0);
    balancer.Verify();
  }
}

TEST(NothingGoesToADrainingOrDeadEngineAndADeadOneKeepsNoLease) {
  for (int i = 0; i < kNumPolicies; ++i) {
    Balancer balancer(Of(static_cast<Policy>(i)));
    AddEngines(&balancer, 3);
    std::vector<std::int64_t> at_two;
    for (int n = 1; n < 30; ++n) {
      const Placement place = balancer.Acquire(ByLength(n, 100), 0);
      if (place.engine == 2) at_two.push_back(place.lease);
    }
    balancer.Drain(1);
    CHECK(balancer.EngineDown(2) == at_two);
    for (const std::int64_t lease : at_two) {
      CHECK_EQUAL(balancer.EngineOf(lease), kNoEngine);
      CHECK(!balancer.Release(lease, Ending::kFailed, 0));
    }
    for (int n = 1; n < 30; ++n) CHECK_EQUAL(balancer.Acquire(ByLength(n, 100), 0).engine, 0);
    balancer.Verify();
  }
}

TEST(MoreThanSixtyFourEnginesAreUsedAndMatchedAlike) {
  for (int i = 0; i < kNumPolicies; ++i) {
    BalancerSettings settings = Of(static_cast<Policy>(i));
    settings.index_bytes = 1 << 20;
    Balancer balancer(settings);
    AddEngines(&balancer, 200);
    std::vector<std::vector<std::int32_t>> prompts;
    std::vector<int> engines;
    for (int n = 0; n < 200; ++n) {
      prompts.emplace_back(64, n);
      engines.push_back(balancer.Acquire(ByTokens(n + 1, prompts.back()), 0).engine);
    }
    std::vector<int> used(200);
    for (const int engine : engines) ++used[static_cast<std::size_t>(engine)];
    const bool is_drawn =
        settings.policy == Policy::kPowerOfTwo || settings.policy == Policy::kConsistentHash;
    if (!is_drawn) CHECK(used == std::vector<int>(200, 1));
    // A second session with the same prompt finds it where it is.
    if (settings.policy != Policy::kRadix && settings.policy != Policy::kScore) continue;
    for (int n = 0; n < 200; ++n) {
      const Placement place = balancer.Acquire(ByTokens(1000 + n, prompts[n]), 0);
      if (settings.policy == Policy::kRadix) CHECK_EQUAL(place.engine, engines[n]);
      if (place.engine == engines[n]) CHECK_EQUAL(place.hit_tokens, 64);
    }
  }
}

TEST(UnequalEnginesGetLoadByTheirCapacity) {
  Balancer balancer(Of(Policy::kAgentMath));
  balancer.AddEngine({1, 0, 0});
  balancer.AddEngine({3, 0, 0});
  for (int n = 1; n <= 400; ++n) balancer.Acquire(ByLength(n, 10), 0);
  CHECK_EQUAL(balancer.Look(0).num_running, 100);
  CHECK_EQUAL(balancer.Look(1).num_running, 300);
}

TEST(ANewEngineGetsNewWorkUntilItHasItsShareAndNotMore) {
  Balancer balancer(Of(Policy::kBreakable));
  AddEngines(&balancer, 2);
  for (int n = 1; n <= 20; ++n) balancer.Acquire(ByLength(n, 10), 0);
  balancer.AddEngine({});
  for (int n = 21; n <= 30; ++n) CHECK_EQUAL(balancer.Acquire(ByLength(n, 10), 0).engine, 2);
  for (int n = 31; n <= 60; ++n) balancer.Acquire(ByLength(n, 10), 0);
  for (int k = 0; k < 3; ++k) CHECK_EQUAL(balancer.Look(k).num_running, 20);
}

TEST(TheBreakerOpensProbesOnceAndDoublesItsPause) {
  BalancerSettings settings = Of(Policy::kLeast);
  settings.breaker_nanoseconds = kSecond;
  Balancer balancer(settings);
  AddEngines(&balancer, 1);
  const auto fail = [&](std::int64_t now) {
    const Placement place = balancer.Acquire(ByLength(kNoSession, 1), now);
    return place.lease != 0 && balancer.Release(place.lease, Ending::kFailed, now);
  };
  for (int i = 0; i < 3; ++i) CHECK(fail(0));
  CHECK(balancer.Look(0).breaker == Breaker::kOpen);
  std::int64_t now = 0;
  for (std::int64_t pause = kSecond; pause <= 64 * kSecond; pause *= 2) {
    const Placement refused = balancer.Acquire(ByLength(kNoSession, 1), now + pause - 1);
    CHECK(refused.admission == Admission::kNoEngine);
    CHECK_EQUAL(refused.retry_nanoseconds, now + pause);
    now += pause;
    const Placement probe = balancer.Acquire(ByLength(kNoSession, 1), now);
    CHECK(probe.admission == Admission::kPlaced);
    CHECK(balancer.Acquire(ByLength(kNoSession, 1), now).admission ==
          Admission::kNoEngine);  // one at a time
    balancer.Release(probe.lease, Ending::kFailed, now);
  }
  CHECK(!fail(now + 64 * kSecond - 1));  // no longer than 64 times
  now += 64 * kSecond;
  const Placement cancelled = balancer.Acquire(ByLength(kNoSession, 1), now);
  balancer.Release(cancelled.lease, Ending::kCancelled, now);  // says nothing: another may try
  const Placement probe = balancer.Acquire(ByLength(kNoSession, 1), now);
  balancer.Release(probe.lease, Ending::kFinished, now);
  CHECK(balancer.Look(0).breaker == Breaker::kClosed);
  CHECK(fail(now) && fail(now));
  CHECK(balancer.Look(0).breaker == Breaker::kClosed);  // counts from the beginning
}

TEST(AProbeThatSucceededIsAnOrdinaryLeaseAfterwards) {
  BalancerSettings settings = Of(Policy::kLeast);
  settings.breaker_failures = 1;
  settings.breaker_nanoseconds = 10;
  for (const Ending ending : {Ending::kCancelled, Ending::kFinished}) {
    Balancer balancer(settings);
    AddEngines(&balancer, 1);
    balancer.Release(balancer.Acquire(ByLength(kNoSession, 1), 0).lease, Ending::kFailed, 0);
    const Placement probe = balancer.Acquire(ByLength(1, 1), 10);
    balancer.Pause(probe.lease, 11);
    CHECK(balancer.Look(0).breaker == Breaker::kClosed);
    balancer.Release(probe.lease, ending, 12);
    CHECK(balancer.Look(0).breaker == Breaker::kClosed);
  }
}

TEST(AProbeOfBeforeAnEngineCameBackSaysNothingOfItNow) {
  BalancerSettings settings = Of(Policy::kLeast);
  settings.breaker_failures = 2;
  settings.breaker_nanoseconds = 10;
  Balancer balancer(settings);
  AddEngines(&balancer, 1);
  for (int i = 0; i < 2; ++i)
    balancer.Release(balancer.Acquire(ByLength(kNoSession, 1), 0).lease, Ending::kFailed, 0);
  const Placement probe = balancer.Acquire(ByLength(kNoSession, 1), 10);
  balancer.EngineUp(0);
  balancer.Release(probe.lease, Ending::kFailed, 11);  // the first failure in a row, not a probe's
  CHECK(balancer.Look(0).breaker == Breaker::kClosed);
}

TEST(AClockThatGoesBackwardsStandsStill) {
  BalancerSettings settings = Of(Policy::kLeast);
  settings.breaker_failures = 1;
  settings.breaker_nanoseconds = 10;
  Balancer balancer(settings);
  AddEngines(&balancer, 1);
  balancer.Release(balancer.Acquire(ByLength(kNoSession, 1), 100).lease, Ending::kFailed, 50);
  CHECK_EQUAL(balancer.Acquire(ByLength(kNoSession, 1), 0).retry_nanoseconds, 110);
  CHECK(balancer.Acquire(ByLength(kNoSession, 1), 110).admission == Admission::kPlaced);
  Balancer late(settings);
  AddEngines(&late, 1);
  late.Release(late.Acquire(ByLength(kNoSession, 1), INT64_MAX).lease, Ending::kFailed, INT64_MAX);
  CHECK_EQUAL(late.Acquire(ByLength(kNoSession, 1), 0).retry_nanoseconds, 0);  // it is due already
}

TEST(KvBudgetsBoundWhatIsBoundAndAnIdleEngineTakesWhatFits) {
  BalancerSettings settings = Of(Policy::kBreakable);
  settings.kv_share = 0.5;
  Balancer balancer(settings);
  balancer.AddEngine({1, 1000, 0});
  CHECK(balancer.Acquire(ByLength(1, 1001), 0).admission == Admission::kTooLong);
  const Placement big = balancer.Acquire(ByLength(1, 1000), 0);
  CHECK(big.admission == Admission::kPlaced);
  CHECK(balancer.Acquire(ByLength(2, 1), 0).admission == Admission::kBusy);
  balancer.Release(big.lease, Ending::kFinished, 0);
  const Placement a = balancer.Acquire(ByLength(3, 300), 0);
  CHECK(balancer.Acquire(ByLength(4, 201), 0).admission == Admission::kBusy);
  CHECK(balancer.Acquire(ByLength(4, 200), 0).admission == Admission::kPlaced);
  // Its own paused tokens are no obstacle: the context has grown beyond the share.
  balancer.Pause(a.lease, 0);
  const Placement grown = balancer.Acquire(ByLength(3, 400), 0);
  CHECK(grown.admission == Admission::kPlaced);
  CHECK_EQUAL(balancer.Look(0).context_tokens, 600);
  CHECK_EQUAL(balancer.GetStats().num_leases, 2);
  balancer.EngineDown(0);
  CHECK(balancer.Acquire(ByLength(3, 400), 0).admission == Admission::kNoEngine);
  balancer.Verify();
}

TEST(ARefusedTurnKeepsThePausedLease) {
  Balancer balancer(Of(Policy::kBreakable));
  balancer.AddEngine({1, 0, 3});
  const Placement place = balancer.Acquire(ByLength(1, 5000), 0);
  balancer.Pause(place.lease, 0);
  Request newer = ByLength(1, 6000);
  newer.min_version = 4;
  CHECK(balancer.Acquire(newer, 0).admission == Admission::kNoEngine);
  CHECK_EQUAL(balancer.EngineOf(place.lease), 0);
  CHECK_EQUAL(balancer.Look(0).weight, 2 * kWeightUnit);
  CHECK_EQUAL(balancer.Look(0).num_paused, 1);
  balancer.Verify();
}

TEST(NoHitCrossesAnUpdateOfTheWeightsNorGoesBackWithThem) {
  Balancer balancer(Of(Policy::kAgentMath));
  AddEngines(&balancer, 1);
  const std::vector<std::int32_t> tokens(64, 5);
  const auto hit = [&](std::int64_t session) {
    const Placement place = balancer.Acquire(ByTokens(session, tokens), 0);
    balancer.Release(place.lease, Ending::kFinished, 0);
    return place.hit_tokens;
  };
  CHECK_EQUAL(hit(1), 0);
  CHECK_EQUAL(hit(1), 64);
  CHECK_EQUAL(hit(2), 64);
  balancer.SetVersion(0, 1);
  CHECK_EQUAL(hit(1), 0);
  balancer.SetVersion(0, 0);  // the old weights again: their cache is gone all the same
  CHECK_EQUAL(hit(1), 0);
  CHECK_EQUAL(hit(3), 64);
  balancer.ClearCache(0);
  CHECK_EQUAL(hit(3), 0);
}

TEST(AfterARestartAdoptedSessionsGoOnWhereTheirCachesAre) {
  const std::vector<std::int32_t> tokens(64, 9);
  Balancer balancer(Of(Policy::kBreakable));
  AddEngines(&balancer, 3);
  balancer.Adopt(2, ByTokens(1, tokens));
  balancer.EngineDown(0);
  CHECK_THROWS(std::invalid_argument, balancer.Adopt(0, ByTokens(2, tokens)));
  balancer.EngineUp(0);
  const Placement place = balancer.Acquire(ByTokens(1, tokens), 0);
  CHECK_EQUAL(place.engine, 2);
  CHECK_EQUAL(place.hit_tokens, 64);
  CHECK_THROWS(std::invalid_argument, balancer.Adopt(1, ByTokens(1, tokens)));
  CHECK(balancer.Dump().find("session 1 at engine 2") != std::string::npos);
  balancer.Verify();
}
