// Generated schedules in which engines die, drain, come and change their weights and requests are
// cancelled at random moments: nothing is lost, doubled or leaked.
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "check.h"
#include "rollout/balancer.h"

using namespace agentmath::rollout;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSchedules = 3000;
#else
constexpr int kSchedules = 100000;
#endif

// A session on its way through its turns; it must end all of them, once each.
struct Actor {
  std::int64_t session = 0;
  std::vector<std::int32_t> tokens;
  std::int64_t lease = 0;  // of the request that runs
  int engine = kNoEngine;
  int turns_left = 0;
  int endings = 0;
  std::int64_t version = kAnyVersion;
};

struct Schedule {
  explicit Schedule(unsigned seed) : random(seed), balancer(Settings(seed)) {
    const int num_engines = 1 + Draw(4);
    for (int i = 0; i < num_engines; ++i) Add();
    actors.resize(1 + Draw(6));
    for (std::size_t i = 0; i < actors.size(); ++i) {
      actors[i].session = static_cast<std::int64_t>(i) + 1;
      actors[i].tokens.assign(Draw(30), static_cast<std::int32_t>(i % 2));
      actors[i].turns_left = 1 + Draw(3);
    }
  }

  static BalancerSettings Settings(unsigned seed) {
    BalancerSettings settings;
    settings.policy = static_cast<Policy>(seed % kNumPolicies);
    settings.base_tokens = 16;
    settings.block_tokens = 4;
    settings.index_bytes = seed % 3 * 20 * 46;
    settings.max_sessions = 1 + seed % 5;
    settings.breaker_failures = static_cast<int>(seed / 8 % 3);
    settings.breaker_nanoseconds = 5;
    settings.seed = seed;
    return settings;
  }

  int Draw(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }

  void Add() {
    balancer.AddEngine({1.0 + Draw(2), Draw(2) * 500, 0});
    states.push_back(1);
  }

  void Begin(Actor* actor) {
    Request request;
    request.session = actor->session;
    request.tokens = actor->tokens.data();
    request.num_tokens = static_cast<std::int64_t>(actor->tokens.size());
    request.min_version = actor->version;
    const Placement place = balancer.Acquire(request, ++now);
    if (place.admission != Admission::kPlaced) return;
    CHECK(states[static_cast<std::size_t>(place.engine)] == 1);
    CHECK(place.version >= actor->version);
    CHECK(place.hit_tokens <= request.num_tokens);
    actor->version = place.version;
    actor->lease = place.lease;
    actor->engine = place.engine;
  }

  // The request's end in one of the ways there are; some are told twice.
  void End(Actor* actor) {
    const std::int64_t lease = actor->lease;
    actor->tokens.insert(actor->tokens.end(), static_cast<std::size_t>(Draw(9)), 7);
    actor->lease = 0;
    const int how = Draw(6);
    if (how == 0) {
      CHECK(balancer.Release(lease, Ending::kFailed, ++now));  // tried again
    } else if (how == 1) {
      CHECK(balancer.Release(lease, Ending::kCancelled, ++now));
    } else {
      balancer.Progress(lease, static_cast<std::int64_t>(actor->tokens.size()));
      const bool is_last = --actor->turns_left == 0;
      ++actor->endings;
      CHECK(!is_last && how < 4 ? balancer.Pause(lease, ++now)
                                : balancer.Release(lease, Ending::kFinished, ++now));
      if (is_last) balancer.EndSession(actor->session);
    }
    if (Draw(4) == 0 && how != 2 && how != 3)
      CHECK(!balancer.Release(lease, Ending::kFailed, ++now));
  }

  void Kill(int engine) {
    states[static_cast<std::size_t>(engine)] = 0;
    std::size_t num_lost = 0;
    const std::vector<std::int64_t> lost = balancer.EngineDown(engine);
    for (Actor& actor : actors) {
      if (actor.lease == 0 || actor.engine != engine) continue;
      ++num_lost;
      CHECK(!balancer.Release(actor.lease, Ending::kFailed, ++now));  // its end comes late
      actor.lease = 0;
    }
    CHECK_EQUAL(lost.size(), num_lost);
  }

  void Fault() {
    const int engine = Draw(static_cast<int>(states.size()));
    switch (Draw(5)) {
      case 0:
        return Kill(engine);
      case 1:
        balancer.SetVersion(engine, balancer.Look(engine).version + 1);
        return;
      case 2:
        balancer.Drain(engine);
        if (states[static_cast<std::size_t>(engine)] == 1)
          states[static_cast<std::size_t>(engine)] = 2;
        return;
      case 3:
        if (states.size() < 70) Add();
        return;
      default:
        balancer.EngineUp(engine);
        states[static_cast<std::size_t>(engine)] = 1;
    }
  }

  bool IsDone() const {
    for (const Actor& actor : actors)
      if (actor.turns_left > 0) return false;
    return true;
  }

  void Run() {
    std::vector<int> turns;
    for (const Actor& actor : actors) turns.push_back(actor.turns_left);
    for (int step = 0; !IsDone(); ++step) {
      CHECK(step < 2000);  // someone waits for ever
      if (Draw(8) == 0) Fault();
      if (step > 500) {  // the world heals
        for (std::size_t k = 0; k < states.size(); ++k, states[k - 1] = 1) {
          balancer.EngineUp(static_cast<int>(k));
          balancer.SetVersion(static_cast<int>(k), 1000);
        }
      }
      Actor& actor = actors[static_cast<std::size_t>(Draw(static_cast<int>(actors.size())))];
      if (actor.turns_left == 0) continue;
      actor.lease == 0 ? Begin(&actor) : End(&actor);
    }
    balancer.Verify();
    for (std::size_t i = 0; i < actors.size(); ++i) CHECK_EQUAL(actors[i].endings, turns[i]);
    for (std::size_t k = 0; k < states.size(); ++k) {
      const EngineView view = balancer.Look(static_cast<int>(k));
      CHECK(view.weight == 0 && view.context_tokens == 0);
      CHECK(view.num_running == 0 && view.num_paused == 0);
    }
    CHECK_EQUAL(balancer.GetStats().num_leases, 0);
  }

  std::mt19937 random;
  Balancer balancer;
  std::vector<int> states;  // 1 up, 2 draining, 0 down
  std::vector<Actor> actors;
  std::int64_t now = 0;
};

}  // namespace

TEST(GeneratedFaultSchedulesLoseDoubleAndLeakNothing) {
  for (unsigned seed = 0; seed < kSchedules; ++seed) {
    try {
      Schedule(seed).Run();
    } catch (const std::exception& error) {
      throw std::runtime_error("schedule " + std::to_string(seed) + ": " + error.what());
    }
  }
}

TEST(ThreadsShareABalancer) {
  BalancerSettings settings;
  settings.index_bytes = 1 << 16;
  settings.max_sessions = 20;
  Balancer balancer(settings);
  for (int i = 0; i < 3; ++i) balancer.AddEngine({});
  std::atomic<int> num_working{3};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&balancer, &num_working, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 3000; ++i) {
        const std::vector<std::int32_t> tokens(random() % 200, static_cast<std::int32_t>(t));
        Request request;
        request.session = 1 + random() % 40;  // shared by all threads
        request.tokens = tokens.data();
        request.num_tokens = static_cast<std::int64_t>(tokens.size());
        const Placement place = balancer.Acquire(request, i);
        if (place.admission != Admission::kPlaced) continue;
        balancer.Progress(place.lease, request.num_tokens + 10);
        if (random() % 2 == 0)
          balancer.Pause(place.lease, i);
        else
          balancer.Release(place.lease, Ending::kFinished, i);
      }
      --num_working;
    });
  }
  threads.emplace_back([&balancer, &num_working] {
    for (int i = 0; num_working > 0; ++i) {
      balancer.EngineDown(i % 2);
      balancer.SetVersion(2, i);
      balancer.Dump();
      balancer.Verify();
      balancer.EngineUp(i % 2);
    }
  });
  for (std::thread& thread : threads) thread.join();
  for (std::int64_t session = 1; session <= 40; ++session) balancer.EndSession(session);
  balancer.Verify();
  CHECK_EQUAL(balancer.GetStats().num_leases, 0);
}
