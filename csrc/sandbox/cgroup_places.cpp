#include "sandbox/cgroup_places.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "core/descriptor.h"
#include "core/error.h"

namespace agentmath::sandbox {
namespace {

bool Lists(std::string_view list, char separator, std::string_view word) {
  const std::vector<std::string_view> words = Split(list, separator);
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct Mount {
  std::string root, folder;
};

// The hierarchy of a version 1 controller; of version 2 when `controller` is empty.
std::optional<Mount> FindMount(std::string_view mounts, std::string_view controller) {
  for (const std::string_view line : Split(mounts, '\n')) {
    const std::size_t middle = line.find(" - ");
    if (middle == std::string_view::npos) continue;
    const std::vector<std::string_view> place = Split(line.substr(0, middle), ' ');
    const std::vector<std::string_view> kind = Split(line.substr(middle + 3), ' ');
    if (place.size() < 5 || kind.empty()) continue;
    const bool fits = controller.empty()
                          ? kind.front() == "cgroup2"
                          : kind.front() == "cgroup" && Lists(kind.back(), ',', controller);
    if (fits) return Mount{std::string(place[3]), std::string(place[4])};
  }
  return std::nullopt;
}

// A process's path in the hierarchy of a version 1 controller; of version 2 when that is empty.
std::optional<std::string> FindPath(std::string_view own, std::string_view controller) {
  for (const std::string_view line : Split(own, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view listed = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? listed.empty() : Lists(listed, ',', controller)) {
      return std::string(line.substr(second + 1));
    }
  }
  return std::nullopt;
}

// Where the path of a process is found below a mount, which may show only a part of the hierarchy.
std::string Below(const Mount& mount, std::string path) {
  if (mount.root != "/") {
    const bool is_shown = path.compare(0, mount.root.size(), mount.root) == 0;
    path = is_shown ? path.substr(mount.root.size()) : "";
  }
  if (path == "/" || path.compare(0, 3, "/..") == 0) path = "";
  return mount.folder + path;
}

std::optional<std::string> FindFolder(std::string_view own, std::string_view mounts,
                                      std::string_view controller) {
  const std::optional<Mount> mount = FindMount(mounts, controller);
  const std::optional<std::string> path = FindPath(own, controller);
  if (!mount || !path) return std::nullopt;
  return Below(*mount, *path);
}

bool GivesBoth(const std::string& folder) {
  if (!Exists(folder + "/cgroup.subtree_control")) return false;
  std::string given = ReadText(folder + "/cgroup.subtree_control");
  std::replace(given.begin(), given.end(), '\n', ' ');
  return Lists(given, ' ', "memory") && Lists(given, ' ', "pids");
}

}  // namespace

std::string ReadText(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw SystemError("read " + path);
  std::string text;
  char buffer[4096];
  ssize_t count = 0;
  while ((count = read(file.get(), buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<std::size_t>(count));
  }
  if (count < 0) throw SystemError("read " + path);
  return text;
}

void WriteText(const std::string& path, const std::string& text) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file || write(file.get(), text.data(), text.size()) < 0) throw SystemError("write " + path);
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; !text.empty(); text.remove_prefix(std::min(end + 1, text.size()))) {
    end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
  }
  return parts;
}

std::optional<std::uint64_t> Number(std::string_view text) {
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc()) return std::nullopt;
  return number;
}

std::vector<std::string> CgroupPlaces::folders() const {
  return is_unified ? std::vector<std::string>{memory} : std::vector<std::string>{memory, pids};
}

CgroupPlaces FindCgroupPlaces(std::string_view own, std::string_view mounts) {
  const std::optional<std::string> memory = FindFolder(own, mounts, "memory");
  const std::optional<std::string> pids = FindFolder(own, mounts, "pids");
  if (memory && pids) return {*memory, *pids, *memory, false};
  const std::optional<std::string> unified = FindFolder(own, mounts, "");
  if (!unified) throw Error("no control groups for memory and pids are mounted here");
  // A group of version 2 holds processes or gives controllers, not both: beside us is the usual
  // place.
  const std::string above = unified->substr(0, unified->rfind('/'));
  for (const std::string& folder : {*unified, above}) {
    if (GivesBoth(folder)) return {folder, folder, *unified, true};
  }
  throw Error("control groups at " + *unified + " give groups below and beside it no memory and " +
              "pids controllers (cgroup.subtree_control)");
}

CgroupPlaces FindCgroupPlaces() {
  return FindCgroupPlaces(ReadText("/proc/self/cgroup"), ReadText("/proc/self/mountinfo"));
}

}  // namespace agentmath::sandbox
