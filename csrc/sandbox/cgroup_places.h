// Where this process may make control groups, version 1 or 2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace agentmath::sandbox {

struct CgroupPlaces {
  // Folders in which groups can be made; one and the same in version 2.
  std::string memory;
  std::string pids;
  std::string home;         // folder of this process's own group of the memory controller
  bool is_unified = false;  // version 2

  std::vector<std::string> folders() const;
};

// From the texts of /proc/self/cgroup and /proc/self/mountinfo. Throws Error when no version of
// control groups gives both controllers to groups at or beside this process's own.
CgroupPlaces FindCgroupPlaces(std::string_view own, std::string_view mounts);

// The same for this process.
CgroupPlaces FindCgroupPlaces();

// Texts as control groups and /proc write them. Those of files throw Error.
std::string ReadText(const std::string& path);
void WriteText(const std::string& path, const std::string& text);
bool Exists(const std::string& path);
std::vector<std::string_view> Split(std::string_view text, char separator);
// The number at the front of `text`; nothing when there is none, as in "max".
std::optional<std::uint64_t> Number(std::string_view text);

}  // namespace agentmath::sandbox
