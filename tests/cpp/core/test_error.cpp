#include <cerrno>
#include <string>

#include "check.h"
#include "core/error.h"

TEST(a_system_error_names_what_failed_and_keeps_errno) {
  errno = ENOENT;
  const agentmath::Error error = agentmath::SystemError("open /nowhere");
  CHECK_EQUAL(error.error_number(), ENOENT);
  CHECK_EQUAL(std::string(error.what()), "open /nowhere: No such file or directory (errno 2)");
}

TEST(an_error_of_ours_has_errno_zero) {
  CHECK_EQUAL(agentmath::Error("bad frame").error_number(), 0);
}
