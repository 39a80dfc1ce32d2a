#include "sandbox/limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "core/error.h"

namespace agentmath::sandbox {
namespace {

void Limit(decltype(RLIMIT_AS) resource, std::uint64_t value, const char* name) {
  rlimit current{};
  if (getrlimit(resource, &current) != 0) throw SystemError(std::string("getrlimit ") + name);
  const rlim_t wanted = std::min<rlim_t>(value, current.rlim_max);
  const rlimit both{wanted, wanted};
  if (setrlimit(resource, &both) != 0) throw SystemError(std::string("setrlimit ") + name);
}

}  // namespace

MemoryUse ParseStatm(std::string_view text, std::uint64_t page_bytes) {
  // size resident shared text lib data dt
  std::uint64_t fields[7] = {};
  const char* position = text.data();
  const char* const end = text.data() + text.size();
  for (std::uint64_t& field : fields) {
    while (position != end && *position == ' ') ++position;
    const auto [next, error] = std::from_chars(position, end, field);
    if (error != std::errc()) throw Error("statm: cannot read \"" + std::string(text) + "\"");
    position = next;
  }
  return {fields[0] * page_bytes, fields[5] * page_bytes};
}

void ApplyLimits(const ResourceLimits& limits) {
  Limit(RLIMIT_AS, limits.address_space_bytes, "AS");
  Limit(RLIMIT_DATA, limits.data_bytes, "DATA");
  Limit(RLIMIT_FSIZE, limits.file_bytes, "FSIZE");
  Limit(RLIMIT_STACK, limits.stack_bytes, "STACK");
  Limit(RLIMIT_NOFILE, limits.open_files, "NOFILE");
  if (limits.processes > 0) Limit(RLIMIT_NPROC, limits.processes, "NPROC");
  Limit(RLIMIT_CORE, 0, "CORE");
  Limit(RLIMIT_MEMLOCK, 0, "MEMLOCK");
  Limit(RLIMIT_MSGQUEUE, 0, "MSGQUEUE");
}

}  // namespace agentmath::sandbox
