// The control group of a zygote and all its children: what they may take together of memory and of
// process numbers. Version 1 or 2, whichever lets this process make groups.
//
//   PLACE/agentmath-sandbox-TRAINER-START/ZYGOTE     (pids, and the trainer's start in clock ticks)
//
// The outer group bounds all zygotes of a trainer, so that the machine has room for the trainer
// whatever its snippets do. The inner one is that of a zygote, and children are born into it: a
// group for each child would cost every one of them more than being forked into one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.h"
#include "sandbox/cgroup_places.h"

namespace agentmath::sandbox {

// How many processes a group has lost to the kernel's want of memory, from the text of
// memory.events or memory.oom_control. Throws Error when it does not say.
std::uint64_t ParseOomKills(std::string_view text);

// Removes the groups of trainers that are no more. What still has processes stays.
void RemoveStaleCgroups(const CgroupPlaces& places);

// Removes the group of a zygote of this process that was reaped, and the outer one with the last of
// them. Waits a moment for the kernel to end what the zygote left; what then remains is removed by
// the next start.
void RemoveCgroup(pid_t zygote);

// The group that this process is in, held by descriptors: its files go out of reach.
class Cgroup {
 public:
  // Makes a group for this process, sees in a throw-away child that it acts, and enters it. Throws
  // Error.
  static Cgroup Enter(const CgroupPlaces& places, pid_t trainer, std::uint64_t max_tasks);

  // Lets all in it hold `bytes` together if that is more than ever before; what the outer group
  // allows is the bound of it.
  void Allow(std::uint64_t bytes);

  // True once for each of its processes that the kernel ended for lack of memory.
  bool TakeOomKill();

 private:
  Cgroup() = default;

  std::vector<std::string> folders_;
  Descriptor limit_, events_;
  std::uint64_t allowed_bytes_ = 0;
  std::uint64_t num_taken_ = 0;
};

}  // namespace agentmath::sandbox
