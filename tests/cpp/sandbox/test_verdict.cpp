#include <signal.h>

#include "check.h"
#include "sandbox/verdict.h"

using agentmath::sandbox::End;
using agentmath::sandbox::Name;
using agentmath::sandbox::OfDeadChild;
using agentmath::sandbox::OfLiveChild;
using agentmath::sandbox::Outcome;
using agentmath::sandbox::Report;
using agentmath::sandbox::Status;
using agentmath::sandbox::Verdict;

namespace {

int Exited(int code) { return code << 8; }

Report Told(Outcome outcome, int exit_code, const std::string& value, const std::string& error) {
  Report report;
  report.outcome = outcome;
  report.exit_code = exit_code;
  report.has_value = !value.empty();
  report.value = value;
  report.error = error;
  return report;
}

const Report& Finished() {
  static const Report report = Told(Outcome::kFinished, 0, "3", "");
  return report;
}

const Report& Raised() {
  static const Report report = Told(Outcome::kException, 1, "", "ValueError: x");
  return report;
}

std::string StatusOf(int wait_status, const Report* report = nullptr,
                     std::optional<Status> killed_for = {}) {
  End end;
  end.wait_status = wait_status;
  end.cpu_limit_seconds = 1;
  end.killed_for = killed_for;
  end.why = "because";
  return Name(OfDeadChild(end, report).status);
}

}  // namespace

TEST(exit_zero_is_ok_only_with_a_report) {
  CHECK_EQUAL(StatusOf(Exited(0), &Finished()), "ok");
  CHECK_EQUAL(StatusOf(Exited(0)), "exit");
}

TEST(a_report_of_success_does_not_outweigh_the_exit_code) {
  CHECK_EQUAL(StatusOf(Exited(4), &Finished()), "exit");
}

TEST(what_was_raised_is_told_in_its_own_words) {
  End end;
  end.wait_status = Exited(1);
  const Verdict verdict = OfDeadChild(end, &Raised());
  CHECK_EQUAL(Name(verdict.status), std::string("exception"));
  CHECK_EQUAL(verdict.error.value(), "ValueError: x");
  CHECK_EQUAL(verdict.exit_code.value(), 1);
  const Report memory = Told(Outcome::kMemory, 1, "", "MemoryError");
  CHECK_EQUAL(StatusOf(Exited(1), &memory), "memory");
}

TEST(our_kill_is_named_by_its_reason) {
  for (const Status status :
       {Status::kCpuTimeout, Status::kWallTimeout, Status::kOutputLimit, Status::kCancelled}) {
    CHECK_EQUAL(StatusOf(SIGKILL, nullptr, status), Name(status));
  }
}

TEST(a_kill_that_was_not_ours_is_explained) {
  CHECK_EQUAL(StatusOf(SIGKILL), "signal");
  CHECK_EQUAL(StatusOf(SIGSEGV, nullptr, Status::kWallTimeout), "signal");
  End end;
  end.wait_status = SIGKILL;
  end.cpu_limit_seconds = 1;
  end.cpu_seconds = 1.5;  // nobody else kills for that
  CHECK_EQUAL(Name(OfDeadChild(end, nullptr).status), std::string("cpu_timeout"));
  end.ran_out_of_memory = true;
  CHECK_EQUAL(Name(OfDeadChild(end, nullptr).status), std::string("memory"));
}

TEST(the_kernels_own_limits_have_names) {
  End end;
  end.wait_status = SIGXCPU;
  end.cpu_limit_seconds = 1;
  end.cpu_seconds = 2;
  CHECK_EQUAL(Name(OfDeadChild(end, nullptr).status), std::string("cpu_timeout"));
  CHECK_EQUAL(StatusOf(SIGXCPU), "signal");  // sent by the snippet to itself
  CHECK_EQUAL(StatusOf(SIGSYS), "syscall_violation");
}

TEST(an_exit_before_the_kill_keeps_its_status_except_for_facts_already_seen) {
  CHECK_EQUAL(StatusOf(Exited(0), &Finished(), Status::kWallTimeout), "ok");
  CHECK_EQUAL(StatusOf(Exited(0), &Finished(), Status::kOutputLimit), "output_limit");
  CHECK_EQUAL(StatusOf(Exited(0), nullptr, Status::kProtocolError), "protocol_error");
}

TEST(a_live_childs_block_is_known_by_its_report_alone) {
  const Verdict finished = OfLiveChild(Finished());
  CHECK_EQUAL(Name(finished.status), std::string("ok"));
  CHECK_EQUAL(finished.value.value(), "3");
  CHECK(!finished.exit_code && !finished.error);
  const Verdict left = OfLiveChild(Told(Outcome::kExit, 3, "", ""));
  CHECK_EQUAL(Name(left.status), std::string("exit"));
  CHECK_EQUAL(left.exit_code.value(), 3);
}
