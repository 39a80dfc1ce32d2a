#include "sandbox/verdict.h"

#include <signal.h>
#include <sys/wait.h>

#include <map>

namespace agentmath::sandbox {
namespace {

Status ReportedStatus(Outcome outcome) {
  switch (outcome) {
    case Outcome::kFinished:
      return Status::kOk;
    case Outcome::kException:
      return Status::kException;
    case Outcome::kMemory:
      return Status::kMemory;
    case Outcome::kExit:
      break;
  }
  return Status::kExit;
}

std::optional<std::string> TextOrNothing(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

// The C library's own table is too new.
std::string InWords(int signal) {
  static const std::map<int, const char*> names = {
      {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"},    {SIGILL, "SIGILL"},
      {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},      {SIGFPE, "SIGFPE"},
      {SIGKILL, "SIGKILL"}, {SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"},    {SIGUSR2, "SIGUSR2"},
      {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},    {SIGXCPU, "SIGXCPU"},
      {SIGXFSZ, "SIGXFSZ"}, {SIGPROF, "SIGPROF"}, {SIGPWR, "SIGPWR"},      {SIGVTALRM, "SIGVTALRM"},
      {SIGSYS, "SIGSYS"},   {SIGIO, "SIGIO"},     {SIGSTKFLT, "SIGSTKFLT"}};
  const auto found = names.find(signal);
  const std::string number = "signal " + std::to_string(signal);
  return found == names.end() ? number : number + " (" + found->second + ")";
}

Verdict BySignal(Status status, std::string error, int signal) {
  return {status, std::move(error), std::nullopt, std::nullopt, signal};
}

Verdict OfSignal(const End& end, int signal) {
  if (end.ran_out_of_memory) {
    return BySignal(Status::kMemory, kOutOfMemory, signal);
  }
  if (end.killed_for && signal == SIGKILL) return BySignal(*end.killed_for, end.why, signal);
  // A snippet may send either to itself: the clock decides.
  if ((signal == SIGXCPU || signal == SIGKILL) && end.cpu_seconds >= end.cpu_limit_seconds) {
    return BySignal(Status::kCpuTimeout, "the kernel's CPU limit was reached", signal);
  }
  if (signal == SIGSYS) {
    return BySignal(Status::kSyscallViolation, "a system call that no snippet has a reason for",
                    signal);
  }
  std::string error = "ended by " + InWords(signal);
  if (signal == SIGKILL) error += " from outside: the kernel out of memory, or another program";
  return BySignal(Status::kSignal, error, signal);
}

}  // namespace

const char* Name(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kException:
      return "exception";
    case Status::kExit:
      return "exit";
    case Status::kSignal:
      return "signal";
    case Status::kWallTimeout:
      return "wall_timeout";
    case Status::kCpuTimeout:
      return "cpu_timeout";
    case Status::kMemory:
      return "memory";
    case Status::kOutputLimit:
      return "output_limit";
    case Status::kSyscallViolation:
      return "syscall_violation";
    case Status::kSessionLost:
      return "session_lost";
    case Status::kProtocolError:
      return "protocol_error";
    case Status::kQueueTimeout:
      return "queue_timeout";
    case Status::kCancelled:
      return "cancelled";
    case Status::kSandboxError:
      break;
  }
  return "sandbox_error";
}

Verdict OfLiveChild(const Report& report) {
  Verdict verdict;
  verdict.status = ReportedStatus(report.outcome);
  verdict.error = TextOrNothing(report.error);
  if (report.has_value) verdict.value = report.value;
  if (report.outcome == Outcome::kExit) verdict.exit_code = report.exit_code;
  return verdict;
}

Verdict OfDeadChild(const End& end, const Report* report) {
  if (WIFSIGNALED(end.wait_status)) return OfSignal(end, WTERMSIG(end.wait_status));
  Verdict verdict;
  const int exit_code = WEXITSTATUS(end.wait_status);
  verdict.exit_code = exit_code;
  if (end.killed_for == Status::kOutputLimit || end.killed_for == Status::kProtocolError) {
    // Facts already, whether or not the kill came in time.
    verdict.status = *end.killed_for;
    verdict.error = end.why;
  } else if (report != nullptr && exit_code == 0) {
    if (report->has_value) verdict.value = report->value;
  } else if (report != nullptr &&
             (report->outcome == Outcome::kException || report->outcome == Outcome::kMemory)) {
    verdict.status = ReportedStatus(report->outcome);
    verdict.error = TextOrNothing(report->error);
  } else {
    verdict.status = Status::kExit;
    verdict.error = "the process left with code " + std::to_string(exit_code);
  }
  return verdict;
}

}  // namespace agentmath::sandbox
