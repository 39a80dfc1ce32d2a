#include "sandbox/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>

#include "core/error.h"
#include "sandbox/probe.h"

namespace agentmath::sandbox {
namespace {

const char kPrefix[] = "agentmath-sandbox-";
// Of what the machine, or the group around us, has: the rest is the trainer's.
constexpr std::uint64_t kShareOfFour = 3;
constexpr int kMakeAttempts = 20;  // of a group whose outer one somebody may be removing
constexpr int kRemoveAttempts = 1000;
constexpr int kRemovePauseMicroseconds = 1000;

// In clock ticks since the machine's start; nothing when there is no such process.
std::optional<std::string> StartOf(pid_t pid) {
  try {
    const std::string stat = ReadText("/proc/" + std::to_string(pid) + "/stat");
    const std::vector<std::string_view> fields =
        Split(std::string_view(stat).substr(stat.rfind(')') + 1), ' ');
    constexpr std::size_t kStart = 19;  // counted from the state, which follows the name
    if (fields.size() > kStart) return std::string(fields[kStart]);
  } catch (const Error&) {
    return std::nullopt;
  }
  return std::nullopt;
}

std::string OuterName(pid_t trainer) {
  return kPrefix + std::to_string(trainer) + "-" + StartOf(trainer).value_or("0");
}

std::vector<std::string> FoldersIn(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(folder.c_str()), closedir);
  while (const dirent* entry = stream ? readdir(stream.get()) : nullptr) {
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

bool IsOfTheDead(const std::string& name) {
  if (name.compare(0, sizeof(kPrefix) - 1, kPrefix) != 0) return false;
  const std::vector<std::string_view> parts =
      Split(std::string_view(name).substr(sizeof(kPrefix) - 1), '-');
  if (parts.size() != 2) return false;
  const std::optional<std::uint64_t> pid = Number(parts[0]);
  return pid && StartOf(static_cast<pid_t>(*pid)) != std::string(parts[1]);
}

std::uint64_t MachineBytes() {
  struct sysinfo facts{};
  if (sysinfo(&facts) != 0) throw SystemError("sysinfo");
  return static_cast<std::uint64_t>(facts.totalram) * facts.mem_unit;
}

// The least that the machine and the groups from `folder` upwards allow.
std::uint64_t RoomAt(std::string folder, const std::string& limit_file) {
  std::uint64_t room = MachineBytes();
  while (Exists(folder + "/cgroup.procs")) {
    if (Exists(folder + limit_file)) {
      room = std::min(room, Number(ReadText(folder + limit_file)).value_or(room));
    }
    folder = folder.substr(0, folder.rfind('/'));
  }
  return room;
}

struct Files {
  const char* memory_limit;
  const char* oom_kills;
  const char* swap;  // 0 in it keeps programs from being written to disk instead of ended
};

Files FilesOf(const CgroupPlaces& places) {
  if (places.is_unified) return {"/memory.max", "/memory.events", "/memory.swap.max"};
  return {"/memory.limit_in_bytes", "/memory.oom_control", "/memory.swappiness"};
}

void MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) throw SystemError("mkdir " + path);
}

// The outer group, with its limits, and in it the group `name`.
void MakeGroups(const CgroupPlaces& places, const std::string& outer, const std::string& name) {
  const Files files = FilesOf(places);
  for (const std::string& place : places.folders()) MakeFolder(place + outer);
  if (places.is_unified) {
    WriteText(places.memory + outer + "/cgroup.subtree_control", "+memory +pids");
  }
  const std::uint64_t room = RoomAt(places.home, files.memory_limit);
  WriteText(places.memory + outer + files.memory_limit, std::to_string(room / 4 * kShareOfFour));
  const std::uint64_t numbers = Number(ReadText("/proc/sys/kernel/pid_max")).value_or(1 << 15);
  WriteText(places.pids + outer + "/pids.max", std::to_string(numbers / 4 * kShareOfFour));
  for (const std::string& place : places.folders()) MakeFolder(place + outer + name);
  const std::string swap = places.memory + outer + name + files.swap;
  if (Exists(swap)) WriteText(swap, "0");
}

void EnterFolders(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) WriteText(folder + "/cgroup.procs", "0");
}

// With a limit of one process, in a throw-away child.
void TryToFork(const std::vector<std::string>& folders) {
  EnterFolders(folders);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  if (child > 0) {
    waitpid(child, nullptr, 0);
    throw Error("the group was made and entered but did not act");
  }
  if (errno != EAGAIN) throw SystemError("fork at the group's limit");
}

void RemoveFolders(const std::string& outer) {
  for (const std::string& inner : FoldersIn(outer)) rmdir((outer + "/" + inner).c_str());
  rmdir(outer.c_str());
}

}  // namespace

std::uint64_t ParseOomKills(std::string_view text) {
  constexpr std::string_view kLabel = "oom_kill ";
  for (const std::string_view line : Split(text, '\n')) {
    if (line.substr(0, kLabel.size()) != kLabel) continue;
    if (const auto count = Number(line.substr(kLabel.size()))) return *count;
  }
  throw Error("the control group does not count processes that were ended for lack of memory");
}

void RemoveStaleCgroups(const CgroupPlaces& places) {
  for (const std::string& place : places.folders()) {
    for (const std::string& name : FoldersIn(place)) {
      if (IsOfTheDead(name)) RemoveFolders(place + "/" + name);
    }
  }
}

void RemoveCgroup(pid_t zygote) {
  CgroupPlaces places;
  try {
    places = FindCgroupPlaces();
  } catch (const Error&) {
    return;  // then no zygote has made a group either
  }
  const std::string outer = "/" + OuterName(getpid());
  for (const std::string& place : places.folders()) {
    const std::string inner = place + outer + "/" + std::to_string(zygote);
    for (int i = 0; i < kRemoveAttempts; ++i) {
      if (rmdir(inner.c_str()) == 0 || errno != EBUSY) break;
      usleep(kRemovePauseMicroseconds);
    }
    rmdir((place + outer).c_str());  // refused while another zygote has a group in it
  }
}

Cgroup Cgroup::Enter(const CgroupPlaces& places, pid_t trainer, std::uint64_t max_tasks) {
  RemoveStaleCgroups(places);
  const std::string outer = "/" + OuterName(trainer);
  const std::string name = "/" + std::to_string(getpid());
  for (int attempt = 1;; ++attempt) {
    try {
      MakeGroups(places, outer, name);
      break;
    } catch (const Error& error) {
      if ((error.error_number() != ENOENT && error.error_number() != ENODEV) ||
          attempt == kMakeAttempts)
        throw;
    }
  }
  Cgroup group;
  for (const std::string& place : places.folders()) group.folders_.push_back(place + outer + name);
  const Files files = FilesOf(places);
  const std::string memory = places.memory + outer + name;
  const std::string tasks = places.pids + outer + name + "/pids.max";
  group.limit_ = Descriptor(open((memory + files.memory_limit).c_str(), O_WRONLY | O_CLOEXEC));
  group.events_ = Descriptor(open((memory + files.oom_kills).c_str(), O_RDONLY | O_CLOEXEC));
  if (!group.limit_ || !group.events_) throw SystemError("open files of " + memory);
  group.TakeOomKill();
  WriteText(tasks, "1");
  const Probe trial = ProbeInChild("cgroup", [&] { TryToFork(group.folders_); });
  if (!trial.available) throw Error(trial.why_not);
  WriteText(tasks, std::to_string(max_tasks));
  EnterFolders(group.folders_);
  return group;
}

void Cgroup::Allow(std::uint64_t bytes) {
  if (bytes <= allowed_bytes_) return;
  const std::string text = std::to_string(bytes);
  if (pwrite(limit_.get(), text.data(), text.size(), 0) < 0) {
    throw SystemError("raise the memory limit of the control group");
  }
  allowed_bytes_ = bytes;
}

bool Cgroup::TakeOomKill() {
  char text[1024];
  const ssize_t count = pread(events_.get(), text, sizeof(text), 0);
  if (count < 0) throw SystemError("read the control group's events");
  const std::uint64_t num_kills = ParseOomKills({text, static_cast<std::size_t>(count)});
  if (num_kills <= num_taken_) return false;
  ++num_taken_;
  return true;
}

}  // namespace agentmath::sandbox
