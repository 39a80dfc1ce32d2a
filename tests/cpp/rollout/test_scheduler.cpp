// How trajectories go, on cases worked by hand; damage, deadlines, threads.
#include <poll.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "rollout/scheduling.h"

using namespace scheduling;

namespace {

// A prompt of 10 tokens, 20 sampled with a call, 5 of output, 30 sampled, the end.
TEST(ATrajectoryGoesFromNewToDone) {
  Settings settings = Small(Mode::kBatch);
  settings.log_capacity = 100;
  Scheduler scheduler(settings);
  scheduler.BeginRound(1, 0);
  CHECK_EQUAL(scheduler.Decide(1).num_groups_wanted, 1);
  scheduler.Submit(7, 10, 1, 2);
  const Decisions todo = scheduler.Decide(3);
  CHECK_EQUAL(todo.grants.size(), 1u);
  CHECK_EQUAL(todo.grants[0].id, IdOf(7, 0));
  CHECK_EQUAL(todo.grants[0].verdict.max_new_tokens, 100);  // not 190: what is sampled has a bound
  const Verdict call =
      scheduler.Generated(todo.grants[0].verdict.ticket, Said(30, 20, 20, Outcome::kCall), 4);
  CHECK(call.action == Action::kCall);
  CHECK_EQUAL(scheduler.GetStats().num_bound_tokens, 30);
  const Verdict again = scheduler.Answered(call.ticket, {35, 20}, 5);
  CHECK(again.action == Action::kGenerate);
  CHECK_EQUAL(again.max_new_tokens, 80);
  CHECK(!scheduler.Decide(6).round_is_over);
  const Verdict end = scheduler.Generated(again.ticket, Said(65, 50, 30, Outcome::kFinished), 7);
  CHECK(end.action == Action::kEnd);
  CHECK(scheduler.Decide(8).round_is_over);
  const View view = scheduler.Look(IdOf(7, 0));
  CHECK_EQUAL(view.num_tool_calls, 1);
  CHECK_EQUAL(view.num_segments, 1);
  const std::vector<Released> released = scheduler.TakeGroups();
  CHECK_EQUAL(released.size(), 1u);
  CHECK_EQUAL(released[0].num_done, 1);
  CHECK(!scheduler.Contains(IdOf(7, 0)));
  CHECK_EQUAL(scheduler.GetStats().num_bound_tokens, 0);
  const std::vector<State> states = {State::kRunning, State::kTool, State::kRunning, State::kDone};
  const std::vector<Transition> log = scheduler.TakeLog();
  CHECK_EQUAL(log.size(), states.size());
  for (std::size_t i = 0; i < log.size(); ++i) {
    CHECK_EQUAL(log[i].sequence, i + 1);
    CHECK(log[i].to == states[i]);
  }
}

TEST(BudgetsEndATrajectory) {
  Scheduler scheduler(Small(Mode::kBatch));
  scheduler.BeginRound(2, 0);
  GroupId next = 0;
  const std::vector<Grant> grants = Feed(&scheduler, &next);
  CHECK_EQUAL(grants.size(), 4u);
  Verdict verdict =
      scheduler.Generated(grants[0].verdict.ticket, Said(110, 100, 100, Outcome::kContinue), 0);
  CHECK(verdict.action == Action::kEnd && verdict.reason == Reason::kLength);
  verdict = scheduler.Generated(grants[1].verdict.ticket, Said(100, 90, 90, Outcome::kLength), 0);
  CHECK(verdict.action == Action::kEnd && verdict.reason == Reason::kLength);
  Ticket ticket = grants[2].verdict.ticket;
  for (int i = 0; i < 2; ++i) {
    verdict = scheduler.Generated(ticket, Said(20, 10, 5, Outcome::kCall), 0);
    CHECK(verdict.action == Action::kCall);
    ticket = scheduler.Answered(verdict.ticket, {25, 10}, 0).ticket;
  }
  verdict = scheduler.Generated(ticket, Said(30, 15, 5, Outcome::kCall), 0);
  CHECK(verdict.action == Action::kEnd && verdict.reason == Reason::kMaxToolCalls);
  verdict = scheduler.Generated(grants[3].verdict.ticket, Said(20, 10, 5, Outcome::kCall), 0);
  verdict = scheduler.Answered(verdict.ticket, {200, 10}, 0);  // the output fills the context
  CHECK(verdict.action == Action::kEnd && verdict.reason == Reason::kLength);
  CHECK_EQUAL(scheduler.GetStats().num_truncated, 4u);
}

TEST(APromptWithoutRoomEndsAtOnceAndSaysSo) {
  Scheduler scheduler(Small(Mode::kBatch));
  scheduler.BeginRound(1, 0);
  scheduler.Submit(0, 200, 2, 0);
  const Decisions todo = scheduler.Decide(0);
  CHECK_EQUAL(todo.ended.size(), 2u);
  CHECK(todo.ended[0].reason == Reason::kLength);
  CHECK(todo.round_is_over);
}

TEST(AResumedTrajectoryGoesOnFromWhatIsBehindIt) {
  Settings settings = Small(Mode::kSegments);
  settings.segment_sampled_tokens = 30;
  Scheduler scheduler(settings);
  scheduler.SetVersion(5, 0);
  scheduler.BeginRound(0, 0);
  scheduler.Submit(0, 10, 1, 0);
  scheduler.Submit(1, 10, 1, 0);
  View where;
  where.totals = {60, 45};
  where.num_tool_calls = 2;
  where.num_segments = 2;
  where.oldest_version = where.newest_version = 3;
  scheduler.Resume(IdOf(1, 0), where);
  const std::vector<Grant> grants = scheduler.Decide(0).grants;
  CHECK_EQUAL(grants[0].id, IdOf(1, 0));  // it is older
  CHECK_EQUAL(grants[0].verdict.max_new_tokens, 55);
  CHECK(!grants[0].verdict.ends_pass);  // its third pass is the last
  CHECK_EQUAL(grants[1].verdict.max_new_tokens, 30);
  const Verdict verdict =
      scheduler.Generated(grants[0].verdict.ticket, Said(70, 55, 10, Outcome::kCall, 5), 0);
  CHECK(verdict.reason == Reason::kMaxToolCalls);
  CHECK_EQUAL(scheduler.Look(IdOf(1, 0)).oldest_version, 3);
  CHECK_THROWS(std::invalid_argument, scheduler.Resume(IdOf(0, 0), where));
  CHECK_THROWS(std::invalid_argument, scheduler.Resume(IdOf(7, 0), where));
}

TEST(WhatIsLostIsTriedAgainAndThenFails) {
  Scheduler scheduler(Small(Mode::kBatch));
  scheduler.BeginRound(1, 0);
  scheduler.Submit(0, 10, 1, 0);
  Verdict verdict = scheduler.Decide(0).grants[0].verdict;
  verdict = scheduler.Lost(verdict.ticket, {14, 4}, false, 0);
  CHECK(verdict.action == Action::kQueue && verdict.reason == Reason::kLost);
  verdict = scheduler.Decide(0).grants[0].verdict;
  CHECK_EQUAL(verdict.max_new_tokens, 96);
  verdict = scheduler.Lost(verdict.ticket, {14, 4}, false, 0);
  CHECK(verdict.action == Action::kEnd && verdict.reason == Reason::kLost);
  CHECK_EQUAL(scheduler.TakeGroups()[0].num_failed, 1);
}

TEST(OnlyTheCallIsRepeatedWhenTheToolWasLost) {
  Scheduler scheduler(Small(Mode::kBatch));
  scheduler.BeginRound(1, 0);
  scheduler.Submit(0, 10, 1, 0);
  Verdict verdict = scheduler.Decide(0).grants[0].verdict;
  CHECK_THROWS(std::invalid_argument, scheduler.Lost(verdict.ticket, {14, 4}, true, 0));
  verdict = scheduler.Generated(verdict.ticket, Said(14, 4, 4, Outcome::kCall), 0);
  scheduler.Lost(verdict.ticket, {14, 4}, true, 0);
  verdict = scheduler.Decide(0).grants[0].verdict;
  CHECK(verdict.action == Action::kCall);
  CHECK(scheduler.Answered(verdict.ticket, {18, 4}, 0).action == Action::kGenerate);
}

TEST(ReportsThatComeLateOrTwiceChangeNothing) {
  Scheduler scheduler(Small(Mode::kBatch));
  scheduler.BeginRound(1, 0);
  scheduler.Submit(0, 10, 2, 0);
  const std::vector<Grant> grants = scheduler.Decide(0).grants;
  Finish(&scheduler, grants[0].verdict.ticket);
  const std::string before = scheduler.Dump(0);
  CHECK(Finish(&scheduler, grants[0].verdict.ticket).action == Action::kIgnore);
  CHECK(scheduler.Lost(grants[0].verdict.ticket, {1, 1}, false, 0).action == Action::kIgnore);
  CHECK_EQUAL(scheduler.GetStats().num_late_reports, 2u);
  const auto counted = [](std::string text) {
    return text.substr(0, text.find("\"late_reports\""));
  };
  CHECK_EQUAL(counted(scheduler.Dump(0)), counted(before));
  CHECK_THROWS(std::invalid_argument, Finish(&scheduler, 99));
  CHECK_THROWS(std::invalid_argument, Finish(&scheduler, 0));
  CHECK_THROWS(std::invalid_argument, scheduler.Answered(grants[1].verdict.ticket, {10, 0}, 0));
  CHECK_THROWS(std::invalid_argument, scheduler.Generated(grants[1].verdict.ticket,
                                                          Said(-1, 0, 0, Outcome::kContinue), 0));
}

TEST(CancellingEndsOnceAndVoidsTheTicket) {
  Scheduler scheduler(Small(Mode::kBatch));
  scheduler.BeginRound(2, 0);
  GroupId next = 0;
  const std::vector<Grant> grants = Feed(&scheduler, &next);
  CHECK(scheduler.Cancel(grants[0].id, 0));
  CHECK(!scheduler.Cancel(grants[0].id, 0));
  CHECK(!scheduler.Cancel(IdOf(5, 0), 0));
  const Decisions todo = scheduler.Decide(0);
  CHECK_EQUAL(todo.interrupts.size(), 1u);
  CHECK_EQUAL(todo.ended.size(), 1u);
  CHECK(Finish(&scheduler, grants[0].verdict.ticket).action == Action::kIgnore);
  CHECK(scheduler.CancelGroup(0, 0));
  CHECK(scheduler.CancelGroup(1, 0));
  CHECK(!scheduler.CancelGroup(9, 0));
  CHECK(scheduler.Decide(0).round_is_over);
  CHECK_EQUAL(scheduler.GetStats().num_bound_tokens, 0);
  CHECK_EQUAL(scheduler.TakeGroups().size(), 2u);
}

TEST(DeadlinesAreOfTheClockThatIsGiven) {
  Settings settings = Small(Mode::kBatch);
  settings.request_nanoseconds = 100;
  settings.tool_nanoseconds = 10;
  settings.round_nanoseconds = 500;
  Scheduler scheduler(settings);
  scheduler.BeginRound(1, 1000);
  scheduler.Submit(0, 10, 1, 1000);
  Verdict verdict = scheduler.Decide(1000).grants[0].verdict;
  CHECK_EQUAL(scheduler.NextDeadline(), 1100);
  CHECK(scheduler.Decide(1099).interrupts.empty());
  Decisions todo = scheduler.Decide(1100);
  CHECK_EQUAL(todo.interrupts.size(), 1u);
  CHECK_EQUAL(todo.grants.size(), 1u);  // tried again
  CHECK(Finish(&scheduler, verdict.ticket).action == Action::kIgnore);
  verdict = todo.grants[0].verdict;
  verdict = scheduler.Generated(verdict.ticket, Said(14, 4, 4, Outcome::kCall), 900);
  CHECK_EQUAL(scheduler.NextDeadline(), 1110);  // a clock that goes backwards stands still
  todo = scheduler.Decide(1110);
  CHECK_EQUAL(todo.ended.size(), 1u);
  CHECK(todo.ended[0].state == State::kFailed && todo.ended[0].reason == Reason::kLate);
  CHECK(todo.round_is_over);
  scheduler.TakeGroups();
  scheduler.BeginRound(1, 1200);
  CHECK(scheduler.Decide(1700).round_is_late);
}

TEST(ASnapshotBringsEverythingBack) {
  Settings settings = Small(Mode::kQuota);
  settings.max_lag = 1;
  Scheduler first(settings);
  first.SetVersion(3, 0);
  first.BeginRound(2, 0);
  GroupId next = 0;
  const std::vector<Grant> grants = Feed(&first, &next);
  first.Generated(grants[0].verdict.ticket, Said(14, 4, 4, Outcome::kCall, 3), 5);
  first.Generated(grants[1].verdict.ticket, Said(14, 4, 4, Outcome::kContinue, 3), 5);
  Finish(&first, grants[2].verdict.ticket, 3);
  Finish(&first, grants[3].verdict.ticket, 3);
  const std::string bytes = first.Snapshot();
  Scheduler second(settings);
  second.Restore(bytes);
  CHECK_EQUAL(second.version(), 3);
  const Stats stats = second.GetStats();
  CHECK_EQUAL(stats.num_groups_ready, 1);
  CHECK_EQUAL(stats.num_bound_tokens, 0);
  CHECK_EQUAL(stats.num_in_state[static_cast<std::size_t>(State::kParked)], 4);
  CHECK_EQUAL(second.Look(grants[0].id).totals.sampled_tokens, 4);
  CHECK(Finish(&second, grants[4].verdict.ticket).action == Action::kIgnore);
  CHECK_THROWS(std::invalid_argument, second.Submit(2, 10, 1, 0));  // an id of before
  second.SetVersion(4, 0);
  second.BeginRound(2, 0);
  CHECK_EQUAL(second.GetStats().num_overdue_groups, 2);  // of version 3: now or never
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    CHECK_THROWS(std::invalid_argument, Scheduler(settings).Restore(damaged));
    CHECK_THROWS(std::invalid_argument, Scheduler(settings).Restore(bytes.substr(0, i)));
  }
}

TEST(SettingsThatCannotBeAreNamed) {
  const auto refused = [](void (*change)(Settings*)) {
    Settings settings = Small(Mode::kSegments);
    change(&settings);
    CHECK_THROWS(std::invalid_argument, Scheduler{settings});
  };
  refused([](Settings* s) { s->groups_per_step = 0; });
  refused([](Settings* s) { s->group_size = -1; });
  refused([](Settings* s) { s->stages.clear(); });
  refused([](Settings* s) { s->stages[0].max_segments = 0; });
  refused([](Settings* s) { s->segment_tool_calls = -1; });
  refused([](Settings* s) { s->over_submission = 0.5; });
  refused([](Settings* s) { s->over_submission = std::numeric_limits<double>::quiet_NaN(); });
  refused([](Settings* s) { s->truncation_rate = 2; });
  refused([](Settings* s) { s->kv_budget_tokens = std::int64_t{1} << 62; });
  refused([](Settings* s) { s->mode = Mode::kAsync, s->max_lag = -1; });
  Scheduler scheduler(Small(Mode::kBatch));
  CHECK_THROWS(std::invalid_argument, scheduler.BeginRound(-1, 0));
  CHECK_THROWS(std::invalid_argument, scheduler.Submit(0, 10, 0, 0));
  CHECK_THROWS(std::invalid_argument, scheduler.Submit(0, -1, 1, 0));
  scheduler.SetVersion(2, 0);
  CHECK_THROWS(std::invalid_argument, scheduler.SetVersion(1, 0));
  CHECK_THROWS(std::invalid_argument, scheduler.SetStage(1));
  CHECK_THROWS(std::invalid_argument, scheduler.Look(0));
}

bool IsReadable(int fd) {
  pollfd waiting = {fd, POLLIN, 0};
  return poll(&waiting, 1, 0) == 1;
}

TEST(OneWakeUpForAllThatHappened) {
  Scheduler scheduler(Small(Mode::kBatch));
  const int fd = scheduler.WakeupFd();
  CHECK(!IsReadable(fd));
  scheduler.BeginRound(2, 0);
  CHECK(IsReadable(fd));
  GroupId next = 0;
  const std::vector<Grant> grants = Feed(&scheduler, &next);
  CHECK(!IsReadable(fd));
  const Verdict goes_on =
      scheduler.Generated(grants[0].verdict.ticket, Said(12, 2, 2, Outcome::kContinue), 0);
  CHECK(!IsReadable(fd));  // nothing to decide
  Finish(&scheduler, goes_on.ticket);
  Finish(&scheduler, grants[1].verdict.ticket);
  CHECK(IsReadable(fd));
  scheduler.Decide(0);
  CHECK(!IsReadable(fd));
}

// Four threads report for their own trajectories while a fifth looks on and decides.
TEST(ThreadsMayReportAtOnce) {
  Settings settings = Small(Mode::kBatch);
  settings.stages = {{1000000, 2000000, 1000, 3}};
  Scheduler scheduler(settings);
  scheduler.BeginRound(2, 0);
  scheduler.WakeupFd();
  GroupId next = 0;
  const std::vector<Grant> grants = Feed(&scheduler, &next);
  std::vector<std::thread> threads;
  for (const Grant& grant : grants) {
    threads.emplace_back([&scheduler, ticket = grant.verdict.ticket]() mutable {
      for (int i = 1; i <= 500; ++i) {
        Verdict verdict = scheduler.Generated(ticket, Said(10 + 2 * i, i, 1, Outcome::kCall), i);
        verdict = scheduler.Answered(verdict.ticket, {11 + 2 * i, i}, i);
        ticket = verdict.ticket;
      }
      Finish(&scheduler, ticket);
    });
  }
  bool is_over = false;
  while (!is_over) {
    is_over = scheduler.Decide(0).round_is_over;
    scheduler.GetStats();
    scheduler.Dump(0);
    scheduler.Snapshot();
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQUAL(scheduler.TakeGroups().size(), 2u);
  CHECK_EQUAL(scheduler.GetStats().num_bound_tokens, 0);
}

}  // namespace
