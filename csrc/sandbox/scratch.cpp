#include "sandbox/scratch.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "sandbox/landlock.h"
#include "sandbox/namespaces.h"

namespace agentmath::sandbox {
namespace {

constexpr std::uint64_t kMinBytes = 1 << 16;
constexpr std::uint64_t kMaxFiles = 1024;
const std::vector<std::string>& Devices() {
  static const std::vector<std::string> devices = {"/dev/null", "/dev/zero", "/dev/urandom",
                                                   "/dev/random"};
  return devices;
}

std::vector<std::string> Entries(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(folder.c_str()), closedir);
  if (!stream) throw SystemError("list " + folder);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(stream.get())) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
      names.emplace_back(entry->d_name);
    }
  }
  return names;
}

bool IsFolder(const std::string& path) {
  struct stat facts{};
  if (lstat(path.c_str(), &facts) != 0) throw SystemError("look at " + path);
  return S_ISDIR(facts.st_mode);
}

void Move(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) throw SystemError("move " + from);
}

}  // namespace

Slot ScratchSlots::Take(std::uint64_t max_bytes) {
  max_bytes = std::max(max_bytes, kMinBytes);
  std::vector<Slot>& free = free_[max_bytes];
  if (free.empty()) return Make(max_bytes);
  Slot slot = std::move(free.back());
  free.pop_back();
  return slot;
}

void ScratchSlots::GiveBack(Slot slot) {
  if (IsEmpty(slot)) {
    free_[slot.max_bytes].push_back(std::move(slot));
  } else if (settings_.has_mounts) {
    UnmountScratch(slot.path);
  } else {
    RemoveTree(slot.path);
  }
}

Slot ScratchSlots::Make(std::uint64_t max_bytes) {
  Slot slot;
  slot.path = settings_.base + "/" + std::to_string(next_number_++);
  slot.max_bytes = max_bytes;
  if (settings_.has_mounts) {
    MountScratch(slot.path, max_bytes, kMaxFiles);
  } else if (mkdir(slot.path.c_str(), 0700) != 0) {
    throw SystemError("mkdir " + slot.path);
  }
  if (settings_.has_landlock) {
    slot.ruleset = Descriptor(MakeLandlockRuleset(settings_.readable, Devices(), {slot.path}));
  }
  return slot;
}

bool ScratchSlots::IsEmpty(const Slot& slot) const {
  if (!settings_.has_mounts) return Entries(slot.path).empty();
  struct statvfs facts{};
  if (statvfs(slot.path.c_str(), &facts) != 0) throw SystemError("look at " + slot.path);
  return facts.f_files - facts.f_ffree == 1 && facts.f_bfree == facts.f_blocks;
}

void RemoveTree(const std::string& path) {
  // Folders are moved to one flat place and emptied there, so that no path gets too long.
  const std::string flat = path + ".removed";
  if (mkdir(flat.c_str(), 0700) != 0) throw SystemError("mkdir " + flat);
  Move(path, flat + "/0");
  std::vector<std::uint64_t> waiting = {0};
  std::uint64_t next = 1;
  while (!waiting.empty()) {
    const std::string folder = flat + "/" + std::to_string(waiting.back());
    waiting.pop_back();
    for (const std::string& name : Entries(folder)) {
      const std::string entry = folder + "/" + name;
      if (IsFolder(entry)) {
        chmod(entry.c_str(), 0700);  // moving a folder writes to it
        Move(entry, flat + "/" + std::to_string(next));
        waiting.push_back(next++);
      } else if (unlink(entry.c_str()) != 0) {
        throw SystemError("remove " + entry);
      }
    }
    if (rmdir(folder.c_str()) != 0) throw SystemError("remove " + folder);
  }
  if (rmdir(flat.c_str()) != 0) throw SystemError("remove " + flat);
}

}  // namespace agentmath::sandbox
