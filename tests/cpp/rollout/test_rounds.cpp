// How rounds go, on cases worked by hand.
#include <stdexcept>
#include <vector>

#include "check.h"
#include "rollout/scheduling.h"

using namespace scheduling;

namespace {

TEST(APassHasBoundsButTheLast) {
  Settings settings = Small(Mode::kSegments);
  settings.segment_sampled_tokens = 30;
  settings.segment_tool_calls = 1;
  Scheduler scheduler(settings);
  scheduler.BeginRound(1, 0);
  scheduler.Submit(0, 10, 1, 0);
  Verdict verdict = scheduler.Decide(0).grants[0].verdict;
  CHECK_EQUAL(verdict.max_new_tokens, 30);
  CHECK(verdict.ends_pass);
  verdict = scheduler.Generated(verdict.ticket, Said(20, 10, 10, Outcome::kCall), 0);
  verdict = scheduler.Answered(verdict.ticket, {25, 10}, 0);
  CHECK(verdict.action == Action::kPark && verdict.reason == Reason::kSegment);  // by calls
  CHECK(scheduler.Decide(0).round_is_over);
  CHECK(scheduler.TakeGroups().empty());
  scheduler.BeginRound(1, 0);
  verdict = scheduler.Decide(0).grants[0].verdict;
  verdict = scheduler.Generated(verdict.ticket, Said(55, 40, 30, Outcome::kLength), 0);
  CHECK(verdict.action == Action::kPark);  // by tokens
  scheduler.BeginRound(1, 0);
  const Decisions todo = scheduler.Decide(0);
  CHECK_EQUAL(todo.num_groups_wanted, 0);  // the parked one is on its way
  CHECK_EQUAL(todo.grants[0].verdict.max_new_tokens, 60);
  CHECK(!todo.grants[0].verdict.ends_pass);
}

TEST(AQuotaEndsARoundAndTheRestIsCarriedOverFirst) {
  Scheduler scheduler(Small(Mode::kQuota));  // 1.5 times 2 groups
  scheduler.BeginRound(2, 0);
  GroupId next = 0;
  std::vector<Grant> grants = Feed(&scheduler, &next);
  CHECK_EQUAL(grants.size(), 6u);
  for (int i : {4, 5, 2}) Finish(&scheduler, grants[static_cast<std::size_t>(i)].verdict.ticket);
  std::vector<Grant> more = Feed(&scheduler, &next);
  CHECK_EQUAL(next, 4);  // group 2 has ended and is replaced
  CHECK_EQUAL(more.size(), 2u);
  CHECK(Finish(&scheduler, grants[3].verdict.ticket).needs_decision);
  const Decisions todo = scheduler.Decide(0);
  CHECK(todo.round_is_over);
  CHECK_EQUAL(todo.num_groups_wanted, 0);
  const std::vector<Id> running = scheduler.Interrupt(0);
  CHECK_EQUAL(running.size(), 4u);
  const Verdict parked =
      scheduler.Generated(grants[0].verdict.ticket, Said(13, 3, 3, Outcome::kAborted), 0);
  CHECK(parked.action == Action::kPark && parked.reason == Reason::kInterrupted);
  scheduler.Generated(grants[1].verdict.ticket, Said(10, 0, 0, Outcome::kAborted, kNoVersion), 0);
  for (const Grant& grant : more) {
    scheduler.Generated(grant.verdict.ticket, Said(12, 2, 2, Outcome::kAborted), 0);
  }
  CHECK_EQUAL(Text(Names(scheduler.TakeGroups())), "1 2 ");
  scheduler.SetVersion(1, 0);
  scheduler.BeginRound(2, 0);
  grants = Feed(&scheduler, &next);
  CHECK_EQUAL(grants.size(), 6u);
  CHECK_EQUAL(grants[0].id, IdOf(0, 0));
  CHECK_EQUAL(grants[1].id, IdOf(0, 1));  // without a token of its own, but of an old group
  CHECK_EQUAL(grants[2].id, IdOf(3, 0));
}

TEST(OverSubmissionOfOneTakesInWhatIsWanted) {
  Settings settings = Small(Mode::kQuota);
  settings.over_submission = 1;
  Scheduler scheduler(settings);
  scheduler.BeginRound(2, 0);
  GroupId next = 0;
  for (const Grant& grant : Feed(&scheduler, &next)) Finish(&scheduler, grant.verdict.ticket);
  CHECK(Feed(&scheduler, &next).empty());
  CHECK_EQUAL(next, 2);
  CHECK_EQUAL(scheduler.TakeGroups().size(), 2u);
}

TEST(AsyncWithoutLagSubmitsOneStepAtATime) {
  Settings settings = Small(Mode::kAsync);
  settings.max_lag = 0;
  Scheduler scheduler(settings);
  scheduler.BeginRound(2, 0);
  GroupId next = 0;
  for (const Grant& grant : Feed(&scheduler, &next)) Finish(&scheduler, grant.verdict.ticket);
  CHECK(scheduler.Decide(0).round_is_over);
  CHECK_EQUAL(scheduler.Decide(0).num_groups_wanted, 0);
  CHECK_EQUAL(scheduler.TakeGroups().size(), 2u);
  CHECK(Feed(&scheduler, &next).empty());
  CHECK_EQUAL(next, 2);
}

TEST(AsyncRunsAheadAsFarAsTheLagAllowsAndBetweenRounds) {
  Settings settings = Small(Mode::kAsync);
  settings.max_lag = 1;
  Scheduler scheduler(settings);
  scheduler.BeginRound(2, 0);
  GroupId next = 0;
  const std::vector<Grant> grants = Feed(&scheduler, &next);
  CHECK_EQUAL(next, 4);  // two for this version, two for the next
  for (std::size_t i = 0; i < 4; ++i) Finish(&scheduler, grants[i].verdict.ticket);
  CHECK(scheduler.Decide(0).round_is_over);
  CHECK_EQUAL(Text(Names(scheduler.TakeGroups())), "0 1 ");
  CHECK(Feed(&scheduler, &next).empty());
  CHECK_EQUAL(next, 4);  // two are left for the one version in which they may still be used
  const Verdict goes_on =
      scheduler.Generated(grants[4].verdict.ticket, Said(20, 10, 10, Outcome::kContinue), 0);
  CHECK(goes_on.action == Action::kGenerate);
  scheduler.SetVersion(1, 0);
  scheduler.BeginRound(2, 0);
  CHECK_EQUAL(Feed(&scheduler, &next).size(), 4u);
  CHECK_EQUAL(next, 6);
}

// Two groups a step, lag 1. Of three groups begun at version 0 none but the first is old enough to
// be due at version 0; at version 1 all that are left are.
TEST(WhatWouldGetTooOldIsWaitedFor) {
  Settings settings = Small(Mode::kQuota);
  settings.max_lag = 1;
  settings.over_submission = 2;
  Scheduler scheduler(settings);
  scheduler.BeginRound(2, 0);
  GroupId next = 0;
  const std::vector<Grant> grants = Feed(&scheduler, &next);
  CHECK_EQUAL(next, 4);
  for (std::size_t i = 4; i < 8; ++i) Finish(&scheduler, grants[i].verdict.ticket);
  CHECK(scheduler.Decide(0).round_is_over);
  scheduler.Interrupt(0);
  for (std::size_t i = 0; i < 4; ++i) {
    scheduler.Generated(grants[i].verdict.ticket, Said(15, 5, 5, Outcome::kAborted), 0);
  }
  CHECK_EQUAL(Text(Names(scheduler.TakeGroups())), "2 3 ");
  scheduler.SetVersion(1, 0);
  scheduler.BeginRound(2, 0);
  const std::vector<Grant> later = Feed(&scheduler, &next);
  CHECK_EQUAL(next, 6);
  for (std::size_t i = 4; i < 8; ++i) Finish(&scheduler, later[i].verdict.ticket, 1);
  CHECK_EQUAL(scheduler.GetStats().num_groups_ready, 2);
  CHECK(!scheduler.Decide(0).round_is_over);  // groups 0 and 1 are of version 0
  for (std::size_t i = 0; i < 4; ++i) Finish(&scheduler, later[i].verdict.ticket, 1);
  CHECK(scheduler.Decide(0).round_is_over);
  CHECK_EQUAL(Text(Names(scheduler.TakeGroups())), "0 1 ");
  CHECK_EQUAL(scheduler.GetStats().max_lag_seen, 1);
}

TEST(WhatWouldGetTooOldIsCutOrLeftOut) {
  for (Overdue rule : {Overdue::kTruncate, Overdue::kCancel}) {
    Settings settings = Small(Mode::kAsync);
    settings.max_lag = 1;
    settings.overdue = rule;
    Scheduler scheduler(settings);
    scheduler.BeginRound(2, 0);
    GroupId next = 0;
    const std::vector<Grant> grants = Feed(&scheduler, &next);
    for (std::size_t i = 4; i < 8; ++i) Finish(&scheduler, grants[i].verdict.ticket);
    CHECK_EQUAL(scheduler.TakeGroups().size(), 2u);
    scheduler.SetVersion(1, 0);
    scheduler.BeginRound(2, 0);
    std::vector<Grant> later = Feed(&scheduler, &next);
    for (const Grant& grant : later) Finish(&scheduler, grant.verdict.ticket, 1);
    const Decisions todo = scheduler.Decide(0);
    CHECK_EQUAL(todo.interrupts.size(), 4u);
    if (rule == Overdue::kTruncate) {
      CHECK(!todo.round_is_over);
      for (std::size_t i = 0; i < 4; ++i) {
        const Verdict verdict =
            scheduler.Generated(grants[i].verdict.ticket, Said(15, 5, 5, Outcome::kAborted), 0);
        CHECK(verdict.action == Action::kEnd && verdict.reason == Reason::kOverdue);
      }
    } else {
      CHECK_EQUAL(todo.ended.size(), 4u);
    }
    CHECK(scheduler.Decide(0).round_is_over);
    const std::vector<Released> released = scheduler.TakeGroups();
    // A cancelled group without a token has no age, and is released at once.
    CHECK_EQUAL(Text(Names(released)), "0 1 ");
    CHECK_EQUAL(released[0].num_truncated, rule == Overdue::kTruncate ? 2 : 0);
    CHECK_EQUAL(released[0].num_cancelled, rule == Overdue::kTruncate ? 0 : 2);
  }
}

// Its tokens may be of the version at which it was asked for, though nobody has told of them yet.
TEST(ARequestThatRunsOverAChangeOfWeightsMakesItsGroupOld) {
  Settings settings = Small(Mode::kAsync);
  settings.groups_per_step = 1;
  settings.max_lag = 1;
  Scheduler scheduler(settings);
  scheduler.BeginRound(1, 0);
  GroupId next = 0;
  const std::vector<Grant> grants = Feed(&scheduler, &next);
  CHECK_EQUAL(next, 2);
  Finish(&scheduler, grants[2].verdict.ticket);
  Finish(&scheduler, grants[3].verdict.ticket);
  CHECK_EQUAL(Text(Names(scheduler.TakeGroups())), "1 ");
  scheduler.SetVersion(1, 0);
  scheduler.BeginRound(1, 0);
  for (const Grant& grant : Feed(&scheduler, &next)) Finish(&scheduler, grant.verdict.ticket, 1);
  CHECK_EQUAL(scheduler.GetStats().num_groups_ready, 1);
  CHECK(!scheduler.Decide(0).round_is_over);
  Finish(&scheduler, grants[0].verdict.ticket, 1);  // begun late by the engine: it is not old
  CHECK(!scheduler.Decide(0).round_is_over);
  Finish(&scheduler, grants[1].verdict.ticket, 0);
  CHECK(scheduler.Decide(0).round_is_over);
  CHECK_EQUAL(Text(Names(scheduler.TakeGroups())), "0 ");
}

TEST(TheContextOfWhatRunsStaysWithinItsBudget) {
  Settings settings = Small(Mode::kBatch);
  settings.kv_budget_tokens = 25;
  Scheduler scheduler(settings);
  scheduler.BeginRound(2, 0);
  GroupId next = 0;
  const std::vector<Grant> grants = Feed(&scheduler, &next);
  CHECK_EQUAL(grants.size(), 2u);  // 10 + 10, a third would be 30
  const Verdict more =
      scheduler.Generated(grants[0].verdict.ticket, Said(40, 30, 30, Outcome::kContinue), 0);
  CHECK_EQUAL(scheduler.GetStats().num_bound_tokens, 50);  // what runs is not stopped
  Finish(&scheduler, grants[1].verdict.ticket);
  CHECK(scheduler.Decide(0).grants.empty());
  Finish(&scheduler, more.ticket);
  CHECK_EQUAL(scheduler.Decide(0).grants.size(), 2u);
  CHECK_THROWS(std::invalid_argument, scheduler.Submit(9, 26, 1, 0));
}

TEST(OneTrajectoryIsAlwaysAdmitted) {
  Settings settings = Small(Mode::kBatch);
  Scheduler scheduler(settings);
  scheduler.BeginRound(1, 0);
  scheduler.Submit(0, 20, 2, 0);
  scheduler.SetKvBudget(5);
  CHECK_EQUAL(scheduler.Decide(0).grants.size(), 1u);
}

TEST(StagesGrowWhenTooManyAreCutOff) {
  Settings settings = Small(Mode::kBatch);
  settings.stages = {{10, 200, 2, 3}, {20, 200, 2, 3}};
  settings.window_steps = 2;
  settings.truncation_rate = 0.25;
  Scheduler scheduler(settings);
  GroupId next = 0;
  const auto step = [&](int num_cut) {
    scheduler.BeginRound(2, 0);
    std::vector<Grant> grants = Feed(&scheduler, &next);
    for (const Grant& grant : grants) {
      const bool is_cut = num_cut-- > 0;
      scheduler.Generated(grant.verdict.ticket,
                          Said(20, 10, 10, is_cut ? Outcome::kLength : Outcome::kFinished), 0);
    }
    scheduler.TakeGroups();
    return scheduler.EndStep();
  };
  CHECK(!step(4));  // 1.0, but the window is of two steps
  CHECK(step(0));   // mean 0.5
  CHECK_EQUAL(scheduler.stage(), 1);
  CHECK(!scheduler.EndStep());
  scheduler.BeginRound(1, 0);
  CHECK_EQUAL(Feed(&scheduler, &next)[0].verdict.max_new_tokens, 20);
}

TEST(AThousandGrantsComeInPortions) {
  Settings settings = Small(Mode::kBatch);
  settings.groups_per_step = 10;
  Scheduler scheduler(settings);
  scheduler.BeginRound(10, 0);
  for (GroupId group = 0; group < 10; ++group) scheduler.Submit(group, 10, 100, 0);
  std::size_t count = 0;
  for (bool has_more = true; has_more;) {
    const Decisions todo = scheduler.Decide(0, 300);
    CHECK(todo.grants.size() <= 300);
    count += todo.grants.size();
    has_more = todo.has_more_grants;
  }
  CHECK_EQUAL(count, 1000u);
}

}  // namespace
