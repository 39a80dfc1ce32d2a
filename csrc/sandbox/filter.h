// Builds a seccomp program out of per-syscall rules: a binary search over syscall numbers.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <map>
#include <vector>

namespace agentmath::sandbox {

// True when (argument & mask) == value. Masks of 32 bits ignore the upper half, as the kernel does
// for int arguments.
struct ArgumentTest {
  int argument;
  std::uint64_t mask;
  std::uint64_t value;
};

// `action` applies when all tests hold.
struct Case {
  std::vector<ArgumentTest> all_of;
  std::uint32_t action;
};

class FilterBuilder {
 public:
  // `arch` is the AUDIT_ARCH_* that is let through; `max_syscall` the highest number that is
  // looked at. Other architectures and higher numbers get `foreign_action`.
  FilterBuilder(std::uint32_t arch, std::uint32_t max_syscall, std::uint32_t foreign_action,
                std::uint32_t default_action);

  // Negative numbers stand for calls that this architecture lacks and are ignored.
  void Set(long syscall, std::uint32_t action);

  // The first case whose tests hold decides, else `otherwise`.
  void SetCases(long syscall, std::vector<Case> cases, std::uint32_t otherwise);

  std::vector<sock_filter> Build() const;

 private:
  struct Rule {
    std::vector<Case> cases;
    std::uint32_t otherwise;
  };
  // Consecutive numbers that share one unconditional action, or one number with cases.
  struct Range {
    std::uint32_t first;
    const Rule* rule;
  };

  std::vector<Range> Ranges() const;

  std::uint32_t arch_;
  std::uint32_t max_syscall_;
  std::uint32_t foreign_action_;
  Rule default_rule_;
  std::map<std::uint32_t, Rule> rules_;
};

}  // namespace agentmath::sandbox
