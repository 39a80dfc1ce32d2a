#include "sandbox/messages.h"

#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace agentmath::sandbox {
namespace {

// Only folders that a zygote may have made are removed at its word.
constexpr std::string_view kOurFolders = "/agentmath-";

template <typename Record>
bool Copy(std::string_view bytes, Record* record) {
  if (bytes.size() != sizeof(Record)) return false;
  std::memcpy(record, bytes.data(), sizeof(Record));
  return true;
}

bool MayBeRemoved(std::string_view folder) {
  if (folder.empty()) return true;
  const std::size_t slash = folder.rfind('/');
  return folder.front() == '/' && folder.find("/../") == std::string_view::npos &&
         folder.substr(slash, kOurFolders.size()) == kOurFolders;
}

}  // namespace

bool ParseRequest(std::string_view bytes, Request* request) {
  return Copy(bytes, request) && request->ask <= Ask::kAllowCpu;
}

bool ParseNotice(std::string_view bytes, Notice* notice) {
  if (!Copy(bytes, notice) || notice->tell > Tell::kExited) return false;
  const bool is_end = WIFEXITED(notice->wait_status) || WIFSIGNALED(notice->wait_status);
  return is_end && notice->pid >= 0 && notice->ran_out_of_memory <= 1 &&
         std::isfinite(notice->cpu_seconds) && notice->cpu_seconds >= 0;
}

Greeting ParseGreeting(std::string_view bytes) {
  const bool is_ready = !bytes.empty() && bytes.front() == kReady;
  const std::string_view rest = bytes.substr(std::min<std::size_t>(1, bytes.size()));
  if (!is_ready) return {false, "", std::string(rest)};
  const std::size_t line_end = rest.find('\n');
  if (line_end == std::string_view::npos || !MayBeRemoved(rest.substr(0, line_end))) {
    return {false, "", "the sandbox process sent an unreadable greeting"};
  }
  return {true, std::string(rest.substr(0, line_end)), std::string(rest.substr(line_end + 1))};
}

}  // namespace agentmath::sandbox
