#include "sandbox/child.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace agentmath::sandbox {
namespace {

constexpr std::size_t kReadBytes = 1 << 16;

}  // namespace

void Child::Begin(Job* next) {
  job = next;
  job->child = this;
  job->started = Now();
  ++sequence;
  report.reset();
  out = Capture(job->bounds.output_bytes);
  err = Capture(job->bounds.output_bytes);
  cpu_before = CpuSeconds();
  Command command;
  command.sequence = sequence;
  command.is_final = job->session == 0;
  command.seed = job->seed;
  command.code = job->code;
  command.input = job->input;
  unsent += EncodeCommand(command);
}

void Child::SendCommand() {
  while (!unsent.empty()) {
    const ssize_t sent =
        send(channel.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return;  // full for now, or the child is gone, and its exit says the rest
    unsent.erase(0, static_cast<std::size_t>(sent));
  }
}

Received Child::Receive(std::vector<Report>* reports) {
  char buffer[kReadBytes];
  const ssize_t count = recv(channel.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Received::kNothing;
  if (count <= 0) {
    was_reset = count < 0 && errno == ECONNRESET;
    return Received::kEnd;
  }
  incomplete.append(buffer, static_cast<std::size_t>(count));
  Report parsed;
  while (const std::size_t used = ParseReport(incomplete, &parsed)) {
    incomplete.erase(0, used);
    reports->push_back(parsed);
  }
  return Received::kSomething;
}

bool Child::Read(const Descriptor& fd) {
  char buffer[kReadBytes];
  const ssize_t count = read(fd.get(), buffer, sizeof(buffer));
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  (&fd == &out_fd ? out : err).Feed({buffer, static_cast<std::size_t>(count)});
  return true;
}

void Child::Drain() {
  const std::uint64_t limit = job != nullptr ? job->bounds.max_output_bytes() : 0;
  for (const auto& [fd, capture] : {std::pair(&out_fd, &out), std::pair(&err_fd, &err)}) {
    std::uint64_t before = ~0ull;
    while (before != capture->total_bytes() && capture->total_bytes() <= limit) {
      before = capture->total_bytes();
      Read(*fd);
    }
  }
}

bool Child::exceeds_output() const {
  if (job == nullptr) return false;
  const std::uint64_t limit = job->bounds.max_output_bytes();
  return out.total_bytes() > limit || err.total_bytes() > limit;
}

double Child::CpuSeconds() const {
  if (pid == 0) return 0;
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return cpu_before;
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

void Child::ReadPeakMemory() {
  const std::string path = "/proc/" + std::to_string(pid) + "/status";
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t count = read(file.get(), text, sizeof(text) - 1);
  if (count <= 0) return;
  text[count] = 0;
  constexpr char kLabel[] = "VmHWM:";
  const char* line = std::strstr(text, kLabel);
  if (line != nullptr) {
    peak_memory_bytes = std::strtoull(line + sizeof(kLabel) - 1, nullptr, 10) << 10;
  }
}

}  // namespace agentmath::sandbox
