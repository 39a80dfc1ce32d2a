#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "check.h"
#include "core/error.h"
#include "sandbox/landlock.h"
#include "sandbox/probe.h"

using agentmath::sandbox::LandlockVersion;
using agentmath::sandbox::MakeLandlockRuleset;
using agentmath::sandbox::Probe;
using agentmath::sandbox::ProbeLayers;
using agentmath::sandbox::ProbeUidDrop;

TEST(every_layer_is_tried_and_a_missing_one_says_why) {
  char folder[] = "/tmp/agentmath-probe-XXXXXX";
  CHECK(mkdtemp(folder) != nullptr);
  const std::vector<Probe> probes = ProbeLayers(folder, true);
  CHECK_EQUAL(rmdir(folder), 0);
  const std::vector<std::string> expected = {
      "no_new_privs",  "rlimits",       "seccomp",       "landlock",      "user_namespace",
      "pid_namespace", "net_namespace", "ipc_namespace", "uts_namespace", "mount_namespace"};
  CHECK_EQUAL(probes.size(), expected.size());
  for (std::size_t i = 0; i < probes.size(); ++i) {
    CHECK_EQUAL(probes[i].layer, expected[i]);
    CHECK(probes[i].available == probes[i].why_not.empty());
  }
}

TEST(trying_leaves_this_process_as_it_was) {
  const uid_t before = geteuid();
  ProbeUidDrop(65534, {"/"});
  ProbeLayers("/tmp", false);
  CHECK_EQUAL(geteuid(), before);
}

TEST(a_uid_that_could_not_read_what_is_needed_is_not_offered) {
  const Probe probe = ProbeUidDrop(65534, {"/", "/no/such/path"});
  CHECK(!probe.available);
  if (geteuid() == 0) CHECK(probe.why_not.find("/no/such/path") != std::string::npos);
}

TEST(a_ruleset_leaves_out_paths_that_do_not_exist) {
  if (LandlockVersion() == 0) return;
  const int ruleset = MakeLandlockRuleset({"/usr", "/no/such/path"}, {"/dev/null"}, {"/tmp"});
  CHECK(ruleset >= 0);
  CHECK_EQUAL(close(ruleset), 0);
}
