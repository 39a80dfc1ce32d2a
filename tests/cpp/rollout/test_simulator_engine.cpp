// The modelled engine against times worked by hand.
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "check.h"
#include "core/error.h"
#include "rollout/simulator_bound.h"
#include "rollout/simulator_engine.h"

namespace {

using agentmath::rollout::EngineSettings;
using agentmath::rollout::kNever;
using agentmath::rollout::ModelledEngine;
using agentmath::rollout::Pass;
using agentmath::rollout::PassReport;
using agentmath::rollout::Stretch;
using agentmath::rollout::Work;

constexpr std::int64_t kMillisecond = 1'000'000;

// A step of B sequences takes 10 ms + B ms, prefill 1 ms a token, 100 tokens of KV.
EngineSettings Simple() {
  EngineSettings settings;
  settings.step_seconds = 0.010;
  settings.step_seconds_per_sequence = 0.001;
  settings.step_seconds_per_context_token = 0;
  settings.prefill_seconds_per_token = 0.001;
  settings.kv_tokens = 100;
  settings.report_tokens = 1 << 20;
  return settings;
}

// Runs an engine until a time or until it is idle, and notes when each session's pass ended.
struct Watch {
  ModelledEngine engine;
  std::int64_t now = 0;
  std::map<std::int64_t, std::int64_t> done_ms = {};
  std::map<std::int64_t, std::int64_t> tokens = {};
  std::vector<PassReport> reports = {};
  std::vector<Stretch> stretches = {};

  void Run(std::int64_t until = kNever) {
    while (engine.next_ns() != kNever && engine.next_ns() <= until) {
      now = engine.next_ns();
      engine.Advance(now, &reports, &stretches);
      Take();
    }
    if (until != kNever) now = until;
  }

  void Take() {
    for (const PassReport& report : reports) {
      tokens[report.session] += report.tokens;
      if (report.is_done) done_ms[report.session] = now / kMillisecond;
    }
    reports.clear();
  }
};

Watch Start(const EngineSettings& settings, std::int64_t prompt_tokens = 0) {
  return Watch{ModelledEngine(settings, prompt_tokens)};
}

}  // namespace

TEST(one_sequence_takes_its_prefill_and_its_steps) {
  Watch watch = Start(Simple());
  watch.engine.Submit(0, {7, 0, 20, 5});
  watch.Run();
  CHECK_EQUAL(watch.done_ms[7], 20 + 5 * 11);
  CHECK_EQUAL(watch.tokens[7], 5);
  CHECK_EQUAL(watch.engine.counts().missed_tokens, 20);
  CHECK_EQUAL(watch.engine.cached_tokens(), 25);
}

TEST(context_makes_each_step_longer_than_the_one_before) {
  EngineSettings settings = Simple();
  settings.step_seconds_per_context_token = 0.001;
  settings.prefill_seconds_per_token = 0;
  Watch watch = Start(settings);
  watch.engine.Submit(0, {1, 0, 10, 3});
  watch.engine.Submit(0, {2, 0, 20, 3});
  watch.Run();
  // Two sequences: 12 ms a step, and a context of 30, 32, 34 tokens.
  CHECK_EQUAL(watch.done_ms[1], 3 * 12 + 30 + 32 + 34);
  CHECK_EQUAL(watch.done_ms[2], watch.done_ms[1]);
}

TEST(a_pass_that_comes_during_a_step_joins_when_the_step_ends) {
  EngineSettings settings = Simple();
  settings.prefill_seconds_per_token = 0;
  Watch watch = Start(settings);
  watch.engine.Submit(0, {1, 0, 0, 4});
  watch.Run(15 * kMillisecond);
  watch.engine.Submit(watch.now, {2, 0, 0, 1});
  watch.Run();
  CHECK_EQUAL(watch.done_ms[2], 2 * 11 + 12);
  CHECK_EQUAL(watch.done_ms[1], 2 * 11 + 12 + 11);
}

TEST(what_comes_at_a_boundary_waits_for_no_step) {
  Watch watch = Start(Simple());
  watch.engine.Submit(0, {1, 0, 0, 4});
  watch.Run(11 * kMillisecond);
  watch.engine.Submit(watch.now, {2, 0, 3, 1});
  watch.Run();
  CHECK_EQUAL(watch.done_ms[2], 11 + 3 + 12);
}

TEST(a_session_that_comes_back_computes_only_what_is_new) {
  Watch watch = Start(Simple());
  watch.engine.Submit(0, {1, 0, 20, 5});
  watch.Run();
  const std::int64_t begun = watch.now / kMillisecond;
  watch.engine.Submit(watch.now, {1, 0, 28, 1});
  watch.Run();
  CHECK_EQUAL(watch.done_ms[1], begun + 3 + 11);
}

TEST(a_group_shares_its_prompt) {
  Watch watch = Start(Simple(), 10);
  watch.engine.Submit(0, {1, 4, 10, 1});
  watch.engine.Submit(0, {2, 4, 10, 1});
  watch.engine.Submit(0, {3, 5, 10, 1});
  watch.Run();
  CHECK_EQUAL(watch.engine.counts().missed_tokens, 20);
  CHECK_EQUAL(watch.engine.counts().wanted_tokens, 30);
}

TEST(idle_caches_make_room_oldest_first) {
  Watch watch = Start(Simple());
  for (const std::int64_t session : {1, 2}) {
    watch.engine.Submit(watch.now, {session, session, 30, 10});
    watch.Run();
  }
  watch.engine.Submit(watch.now, {3, 3, 30, 10});
  watch.Run();
  CHECK_EQUAL(watch.engine.cached_tokens(), 80);
  CHECK_EQUAL(watch.engine.counts().evictions, 1);
  const std::int64_t missed = watch.engine.counts().missed_tokens;
  watch.engine.Submit(watch.now, {2, 2, 40, 1});
  watch.Run();
  CHECK_EQUAL(watch.engine.counts().missed_tokens, missed);
  watch.engine.Submit(watch.now, {1, 1, 40, 1});
  watch.Run();
  CHECK_EQUAL(watch.engine.counts().missed_tokens, missed + 40);
}

TEST(the_youngest_gives_way_when_the_cache_is_full_and_loses_no_token) {
  Watch watch = Start(Simple());
  watch.engine.Submit(0, {1, 1, 40, 40});
  watch.engine.Submit(0, {2, 2, 40, 40});
  watch.Run();
  CHECK_EQUAL(watch.engine.counts().preemptions, 1);
  CHECK_EQUAL(watch.tokens[1], 40);
  CHECK_EQUAL(watch.tokens[2], 40);
  // Ten steps of both fill the cache; 1 goes on alone, then 2 computes its 50 tokens again.
  CHECK_EQUAL(watch.done_ms[1], 80 + 10 * 12 + 30 * 11);
  CHECK_EQUAL(watch.done_ms[2], watch.done_ms[1] + 50 + 30 * 11);
}

TEST(who_gave_way_comes_back_before_those_that_never_began) {
  Watch watch = Start(Simple());
  watch.engine.Submit(0, {1, 1, 40, 40});
  watch.engine.Submit(0, {2, 2, 40, 40});
  watch.engine.Submit(0, {3, 3, 60, 1});
  watch.Run();
  CHECK_EQUAL(watch.done_ms[2], watch.done_ms[1] + 50 + 30 * 11);
  CHECK_EQUAL(watch.done_ms[3], watch.done_ms[2] + 60 + 11);
}

TEST(a_pause_voids_idle_caches_unless_they_are_kept) {
  for (const bool keeps_kv : {false, true}) {
    Watch watch = Start(Simple());
    watch.engine.Submit(0, {1, 0, 20, 5});
    watch.Run();
    watch.engine.Pause(watch.now, keeps_kv, &watch.reports, &watch.stretches);
    watch.engine.Resume(watch.now);
    CHECK_EQUAL(watch.engine.cached_tokens(), keeps_kv ? 25 : 0);
  }
}

TEST(a_context_that_no_cache_holds_is_refused) {
  Watch watch = Start(Simple());
  CHECK_THROWS(agentmath::Error, watch.engine.Submit(0, Pass{1, 0, 60, 41}));
  CHECK_THROWS(agentmath::Error, watch.engine.Submit(0, Pass{1, 0, 60, 0}));
}

TEST(a_pause_drops_the_cache_and_keeps_the_tokens) {
  for (const bool keeps_kv : {false, true}) {
    Watch watch = Start(Simple());
    watch.engine.Submit(0, {1, 0, 20, 5});
    watch.Run(20 * kMillisecond + 30 * kMillisecond);
    watch.engine.Pause(watch.now, keeps_kv, &watch.reports, &watch.stretches);
    watch.Take();
    CHECK_EQUAL(watch.tokens[1], 2);
    watch.engine.Resume(100 * kMillisecond);
    watch.Run();
    CHECK_EQUAL(watch.tokens[1], 5);
    CHECK_EQUAL(watch.done_ms[1], 100 + (keeps_kv ? 0 : 22) + 3 * 11);
  }
}

TEST(what_is_aborted_ends_with_the_token_that_is_being_sampled) {
  Watch watch = Start(Simple());
  watch.engine.Submit(0, {1, 0, 20, 5});
  watch.engine.Submit(0, {2, 0, 0, 5});
  watch.Run(50 * kMillisecond);
  watch.engine.Abort(watch.now, 1, &watch.reports);
  watch.Run();
  CHECK_EQUAL(watch.tokens[1], 3);
  CHECK_EQUAL(watch.done_ms[1], 20 + 3 * 12);
  CHECK_EQUAL(watch.done_ms[2], 20 + 3 * 12 + 2 * 11);
}

TEST(what_is_aborted_before_it_runs_ends_at_once_or_with_its_first_token) {
  Watch watch = Start(Simple());
  watch.engine.Submit(0, {1, 0, 20, 5});
  watch.engine.Abort(0, 1, &watch.reports);
  CHECK(watch.reports.size() == 1 && watch.reports[0].is_done && watch.reports[0].tokens == 0);
  CHECK_EQUAL(watch.engine.next_ns(), kNever);
  watch.reports.clear();
  watch.engine.Submit(0, {1, 0, 20, 5});
  watch.Run(10 * kMillisecond);
  watch.engine.Abort(watch.now, 1, &watch.reports);
  watch.Run();
  CHECK_EQUAL(watch.tokens[1], 1);
  watch.engine.Abort(watch.now, 1, &watch.reports);
  CHECK(watch.reports.empty());
}

TEST(reports_do_not_change_times) {
  std::map<std::int64_t, std::int64_t> first;
  for (const std::int64_t report_tokens : {1, 7, 1 << 20}) {
    EngineSettings settings = Simple();
    settings.report_tokens = report_tokens;
    settings.step_seconds_per_context_token = 0.001;
    Watch watch = Start(settings);
    watch.engine.Submit(0, {1, 0, 3, 9});
    watch.engine.Submit(0, {2, 0, 5, 17});
    watch.Run();
    if (first.empty()) first = watch.done_ms;
    CHECK(watch.done_ms == first);
  }
}

TEST(random_passes_conserve_tokens_and_never_beat_the_bound) {
  std::mt19937 random(3);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<unsigned>(high - low + 1));
  };
  for (int round = 0; round < 200; ++round) {
    EngineSettings settings = Simple();
    settings.step_seconds_per_context_token = 1e-4;
    settings.report_tokens = draw(1, 20);
    settings.max_batch = draw(0, 4);
    Watch watch = Start(settings, 2);
    std::map<std::int64_t, std::int64_t> wanted;
    Work work;
    for (std::int64_t session = 0; session < 12; ++session) {
      const Pass pass{session, session / 4, draw(2, 40), draw(1, 60)};
      watch.Run(watch.now + draw(0, 60) * kMillisecond / 3);
      watch.engine.Submit(watch.now, pass);
      wanted[session] = pass.tokens;
      work += Work::Of(pass.tokens, pass.context_tokens);
    }
    watch.Run();
    CHECK(watch.tokens == wanted);
    CHECK_EQUAL(watch.engine.counts().decoded_tokens, work.tokens);
    double busy = 0;
    std::int64_t last = 0;
    for (const Stretch& stretch : watch.stretches) {
      CHECK(stretch.begin_ns >= last && stretch.end_ns >= stretch.begin_ns);
      last = stretch.end_ns;
      if (stretch.activity == agentmath::rollout::Activity::kDecode)
        busy += static_cast<double>(stretch.end_ns - stretch.begin_ns) * 1e-9;
    }
    CHECK(agentmath::rollout::EngineSecondsAtLeast(settings, work, 0) <= busy * (1 + 1e-9));
  }
}

TEST(the_bound_is_the_rate_of_the_fullest_batch) {
  EngineSettings settings = Simple();
  settings.step_seconds_per_context_token = 1e-4;
  const Work work{1000, 1000 * 20.0};  // mean context 20, so 5 fit into 100
  const double rate = 5 / (0.010 + 5 * 0.001 + 5 * 20 * 1e-4);
  CHECK(std::fabs(agentmath::rollout::EngineSecondsAtLeast(settings, work, 0) - 1000 / rate) <
        1e-9);
  const double capped = 2 / (0.010 + 2 * 0.001 + 2 * 20 * 1e-4);
  CHECK(std::fabs(agentmath::rollout::EngineSecondsAtLeast(settings, work, 2) - 1000 / capped) <
        1e-9);
}
