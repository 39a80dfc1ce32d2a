#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "check.h"
#include "core/error.h"
#include "sandbox/cgroup.h"
#include "sandbox/scratch.h"

using agentmath::Error;
using agentmath::sandbox::Cgroup;
using agentmath::sandbox::CgroupPlaces;
using agentmath::sandbox::Exists;
using agentmath::sandbox::FindCgroupPlaces;
using agentmath::sandbox::ParseOomKills;
using agentmath::sandbox::ReadText;
using agentmath::sandbox::RemoveCgroup;
using agentmath::sandbox::RemoveStaleCgroups;
using agentmath::sandbox::RemoveTree;

namespace {

constexpr char kMounts[] =
    "21 1 0:19 / / rw - ext4 /dev/sda rw\n"
    "30 21 0:25 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
    "31 21 0:26 /box /sys/fs/cgroup/pids rw,relatime - cgroup none rw,cpuacct,pids\n"
    "32 21 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

// As version 2 lays them out: what `given` names is open to groups below `folder`.
void PretendGroup(const std::string& folder, const std::string& given) {
  mkdir(folder.c_str(), 0700);
  std::ofstream(folder + "/cgroup.subtree_control") << given;
}

// Folders of a pretended version 2: the top, and below it our own group.
struct Pretended {
  explicit Pretended(const std::string& given) {
    char name[] = "/tmp/agentmath-test-XXXXXX";
    CHECK(mkdtemp(name) != nullptr);
    top = name;
    PretendGroup(top, given);
    PretendGroup(top + "/ours", "");
    mounts = "32 21 0:27 / " + top + " rw - cgroup2 cgroup2 rw\n";
  }
  ~Pretended() { RemoveTree(top); }

  std::string top, mounts;
};

// Where this machine lets us make groups; nothing where it does not.
std::optional<CgroupPlaces> RealPlaces() {
  try {
    CgroupPlaces places = FindCgroupPlaces();
    for (const std::string& folder : places.folders()) {
      if (geteuid() != 0 && access(folder.c_str(), W_OK) != 0) return std::nullopt;
    }
    return places;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Runs `body` in a child of ours that then waits for its end, which comes with this object's.
class WaitingChild {
 public:
  explicit WaitingChild(const std::function<void()>& body) {
    int ends[2];
    CHECK_EQUAL(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) Live(body, ends[1]);
    close(ends[1]);
    char word = 0;
    while (read(ends[0], &word, 1) == 1) said_ += word;
    close(ends[0]);
  }
  ~WaitingChild() { End(); }

  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  pid_t pid() const { return pid_; }
  const std::string& said() const { return said_; }  // what went wrong, or nothing

 private:
  [[noreturn]] static void Live(const std::function<void()>& body, int fd) {
    try {
      body();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      if (write(fd, text.data(), text.size()) < 0) _exit(1);
    }
    close(fd);
    pause();
    _exit(0);
  }

  pid_t pid_ = 0;
  std::string said_;
};

// How many children this process can have at once, up to `most`; they are gone afterwards.
int CountForks(int most) {
  std::vector<pid_t> children;
  while (static_cast<int>(children.size()) < most) {
    const pid_t child = fork();
    if (child < 0) break;
    if (child == 0) {
      // Where the parent runs into its group's memory, nothing of it may be left, nor hold a pipe
      // open.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      pause();
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return static_cast<int>(children.size());
}

bool IsIn(pid_t pid, const std::string& group) {
  return ReadText("/proc/" + std::to_string(pid) + "/cgroup").find(group) != std::string::npos;
}

}  // namespace

TEST(groups_of_version_1_are_found_by_controller_below_what_a_mount_shows) {
  const CgroupPlaces places =
      FindCgroupPlaces("4:memory:/jobs/7\n8:pids,cpuacct:/box/in\n0::/x\n", kMounts);
  CHECK_EQUAL(places.memory, "/sys/fs/cgroup/memory/jobs/7");
  CHECK_EQUAL(places.pids, "/sys/fs/cgroup/pids/in");
  CHECK(!places.is_unified);
  CHECK_EQUAL(places.folders().size(), 2u);
}

TEST(a_process_at_the_top_of_a_hierarchy_or_above_what_is_shown_stands_at_the_mount) {
  CHECK_EQUAL(FindCgroupPlaces("4:memory:/\n8:pids:/\n", kMounts).memory, "/sys/fs/cgroup/memory");
  CHECK_EQUAL(FindCgroupPlaces("4:memory:/../..\n8:pids:/other\n", kMounts).memory,
              "/sys/fs/cgroup/memory");
  CHECK_EQUAL(FindCgroupPlaces("4:memory:/\n8:pids:/other\n", kMounts).pids, "/sys/fs/cgroup/pids");
}

TEST(groups_of_version_2_are_made_beside_us_where_both_controllers_are_given) {
  const Pretended pretended("cpu memory pids\n");
  const CgroupPlaces places = FindCgroupPlaces("0::/ours\n", pretended.mounts);
  CHECK_EQUAL(places.memory, pretended.top);
  CHECK_EQUAL(places.home, pretended.top + "/ours");
  CHECK(places.is_unified);
  CHECK_EQUAL(places.folders().size(), 1u);
}

TEST(version_2_without_a_controller_is_refused_with_the_place_named) {
  const Pretended pretended("cpu memory\n");
  CHECK_THROWS(Error, FindCgroupPlaces("0::/ours\n", pretended.mounts));
  CHECK_THROWS(Error, FindCgroupPlaces("0::/ours\n", ""));
  CHECK_THROWS(Error, FindCgroupPlaces("", pretended.mounts));
  CHECK_THROWS(Error, FindCgroupPlaces("junk\n::::\n\n", "junk - \n - \n- - -\n"));
}

TEST(ended_processes_are_counted_as_both_versions_write_it) {
  CHECK_EQUAL(ParseOomKills("oom_kill_disable 0\nunder_oom 1\noom_kill 3\n"), 3u);
  CHECK_EQUAL(ParseOomKills("low 0\nmax 9\noom 4\noom_kill 12\noom_group_kill 0\n"), 12u);
  CHECK_THROWS(Error, ParseOomKills("oom_kill_disable 0\n"));
  CHECK_THROWS(Error, ParseOomKills("oom_kill x\n"));
  CHECK_THROWS(Error, ParseOomKills(""));
}

TEST(a_group_holds_its_process_bounds_it_and_is_removed_after_it) {
  const std::optional<CgroupPlaces> places = RealPlaces();
  if (!places) return;
  const pid_t trainer = getpid();
  constexpr int kMaxTasks = 40;
  WaitingChild child([&] {
    Cgroup group = Cgroup::Enter(*places, trainer, kMaxTasks);
    group.Allow(64 << 20);
    group.Allow(1 << 20);  // never less
    CHECK(!group.TakeOomKill());
    const int num_forks = CountForks(kMaxTasks);
    // This process, and a thread of each under a sanitizer, count too.
    CHECK(num_forks >= kMaxTasks / 2 - 2);
    CHECK(num_forks < kMaxTasks);
  });
  CHECK_EQUAL(child.said(), "");
  const pid_t zygote = child.pid();
  const std::string name = "agentmath-sandbox-" + std::to_string(trainer) + "-";
  CHECK(IsIn(zygote, name));
  const std::string cgroup = ReadText("/proc/" + std::to_string(zygote) + "/cgroup");
  const std::string outer =
      cgroup.substr(cgroup.find(name), cgroup.find('/', cgroup.find(name)) - cgroup.find(name));
  const std::string limit = places->is_unified ? "/memory.max" : "/memory.limit_in_bytes";
  const std::string inner = places->memory + "/" + outer + "/" + std::to_string(zygote);
  CHECK_EQUAL(ReadText(inner + limit), std::to_string(64 << 20) + "\n");
  RemoveStaleCgroups(*places);  // we live
  CHECK(Exists(inner));
  child.End();
  RemoveCgroup(zygote);
  for (const std::string& place : places->folders()) CHECK(!Exists(place + "/" + outer));
}

TEST(groups_of_a_trainer_that_is_no_more_are_removed_by_whoever_comes_next) {
  const std::optional<CgroupPlaces> places = RealPlaces();
  if (!places) return;
  const std::string outer = "/agentmath-sandbox-" + std::to_string(getpid()) + "-1";
  for (const std::string& place : places->folders()) {
    CHECK_EQUAL(mkdir((place + outer).c_str(), 0700), 0);
    if (!places->is_unified) CHECK_EQUAL(mkdir((place + outer + "/77").c_str(), 0700), 0);
  }
  RemoveStaleCgroups(*places);  // our number, but another process's start
  for (const std::string& place : places->folders()) CHECK(!Exists(place + outer));
}
