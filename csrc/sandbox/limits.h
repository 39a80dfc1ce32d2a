// Resource limits of a child, and the sizes they start from.
#pragma once

#include <cstdint>
#include <string_view>

namespace agentmath::sandbox {

struct MemoryUse {
  std::uint64_t address_space_bytes = 0;
  std::uint64_t data_bytes = 0;
};

// From the text of /proc/PID/statm; throws Error when it is not such a text.
MemoryUse ParseStatm(std::string_view text, std::uint64_t page_bytes);

struct ResourceLimits {
  std::uint64_t address_space_bytes = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t stack_bytes = 0;
  std::uint64_t open_files = 0;
  std::uint64_t processes = 0;  // threads count; 0 leaves the limit alone
};

// Sets soft and hard limits of this process; never raises one. CPU time is not among them: the
// parent sets that, since it must be able to raise it again for a process that lives over several
// blocks. Throws Error with the limit's name.
void ApplyLimits(const ResourceLimits& limits);

}  // namespace agentmath::sandbox
