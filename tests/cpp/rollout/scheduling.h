// What the scheduler's tests have in common.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rollout/scheduler.h"

namespace scheduling {

using namespace agentmath::rollout;

inline Settings Small(Mode mode) {
  Settings settings;
  settings.mode = mode;
  settings.groups_per_step = 2;
  settings.group_size = 2;
  settings.stages = {{100, 200, 2, 3}};
  settings.max_retries = 1;
  return settings;
}

inline Generation Said(std::int64_t context, std::int64_t sampled, std::int64_t fresh,
                       Outcome outcome, std::int64_t version = 0) {
  return {{context, sampled}, fresh, version, version, outcome};
}

// Submits the groups that are wanted, numbered on from *next; returns what may begin.
inline std::vector<Grant> Feed(Scheduler* scheduler, GroupId* next, std::int64_t prompt = 10) {
  std::vector<Grant> grants;
  for (;;) {
    Decisions todo = scheduler->Decide(0);
    grants.insert(grants.end(), todo.grants.begin(), todo.grants.end());
    if (todo.num_groups_wanted == 0) return grants;
    for (; todo.num_groups_wanted > 0; --todo.num_groups_wanted) {
      scheduler->Submit((*next)++, prompt, 2, 0);
    }
  }
}

inline Verdict Finish(Scheduler* scheduler, Ticket ticket, std::int64_t version = 0) {
  return scheduler->Generated(ticket, Said(20, 10, 10, Outcome::kFinished, version), 0);
}

inline std::vector<GroupId> Names(const std::vector<Released>& released) {
  std::vector<GroupId> names;
  for (const Released& one : released) names.push_back(one.group);
  return names;
}

inline std::string Text(const std::vector<GroupId>& names) {
  std::string text;
  for (GroupId name : names) text += std::to_string(name) + " ";
  return text;
}

}  // namespace scheduling
