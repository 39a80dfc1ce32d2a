#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/error.h"
#include "sandbox/limits.h"

using agentmath::Error;
using agentmath::sandbox::ApplyLimits;
using agentmath::sandbox::MemoryUse;
using agentmath::sandbox::ParseStatm;
using agentmath::sandbox::ResourceLimits;

namespace {

ResourceLimits Generous() {
  ResourceLimits limits;
  limits.address_space_bytes = limits.data_bytes = 1ull << 62;
  limits.file_bytes = 1 << 20;
  limits.stack_bytes = 8 << 20;
  limits.open_files = 50;
  return limits;
}

bool HoldsInAChild(bool (*body)()) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST(statm_gives_pages_of_address_space_and_data) {
  const MemoryUse use = ParseStatm("3000 1000 500 2 0 700 0\n", 4096);
  CHECK_EQUAL(use.address_space_bytes, 3000u * 4096);
  CHECK_EQUAL(use.data_bytes, 700u * 4096);
}

TEST(a_text_that_is_no_statm_is_refused) {
  for (const char* text : {"", "3000", "1 2 3 4 5 6", "a b c d e f g", "-1 2 3 4 5 6 7"}) {
    CHECK_THROWS(Error, ParseStatm(text, 4096));
  }
}

TEST(limits_hold_afterwards_and_cpu_time_is_left_to_the_parent) {
  CHECK(HoldsInAChild([] {
    rlimit before{};
    rlimit cpu{};
    rlimit files{};
    rlimit core{};
    getrlimit(RLIMIT_CPU, &before);
    ApplyLimits(Generous());
    getrlimit(RLIMIT_CPU, &cpu);
    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_CORE, &core);
    return cpu.rlim_cur == before.rlim_cur && files.rlim_max == 50 && core.rlim_max == 0;
  }));
}

TEST(a_limit_is_never_raised) {
  CHECK(HoldsInAChild([] {
    ApplyLimits(Generous());
    ResourceLimits more = Generous();
    more.open_files = 60;
    ApplyLimits(more);
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    return files.rlim_cur == 50;
  }));
}
