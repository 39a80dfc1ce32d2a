// Folders for children to write in, each used by one child at a time and handed on only when empty.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/descriptor.h"

namespace agentmath::sandbox {

// A scratch folder and the Landlock ruleset that opens it.
struct Slot {
  std::string path;
  std::uint64_t max_bytes = 0;
  Descriptor ruleset;  // none without Landlock
};

struct ScratchSettings {
  std::string base;                   // existing folder that holds the slots
  bool has_mounts = false;            // each slot is a tmpfs of its own
  bool has_landlock = false;          // each slot has a ruleset
  std::vector<std::string> readable;  // what a child may read besides
};

class ScratchSlots {
 public:
  explicit ScratchSlots(ScratchSettings settings) : settings_(std::move(settings)) {}

  // An empty folder that holds `max_bytes`. Throws Error when none can be made.
  Slot Take(std::uint64_t max_bytes);

  // Takes a folder back from a dead child. Throws Error when it can neither be reused nor removed.
  void GiveBack(Slot slot);

 private:
  Slot Make(std::uint64_t max_bytes);
  bool IsEmpty(const Slot& slot) const;

  ScratchSettings settings_;
  std::map<std::uint64_t, std::vector<Slot>> free_;
  std::uint64_t next_number_ = 0;
};

// Removes a folder however deep it is, following no link. Throws Error.
void RemoveTree(const std::string& path);

}  // namespace agentmath::sandbox
