#include "sandbox/filter.h"

#include <linux/seccomp.h>

#include <cstddef>
#include <utility>

#include "core/error.h"

namespace agentmath::sandbox {
namespace {

using Program = std::vector<sock_filter>;

constexpr std::uint32_t kUpperHalf = 4;  // offset of the high word, little endian

void Append(Program* program, const Program& more) {
  program->insert(program->end(), more.begin(), more.end());
}

sock_filter Load(std::uint32_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }

sock_filter Return(std::uint32_t action) { return BPF_STMT(BPF_RET | BPF_K, action); }

sock_filter JumpUnlessEqual(std::uint32_t value, std::size_t skip) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, static_cast<std::uint8_t>(skip));
}

// Compares one 32-bit half; on a mismatch the rest of the case is skipped (patched by the caller).
void AppendHalf(Program* program, std::uint32_t offset, std::uint32_t mask, std::uint32_t value) {
  if (mask == 0) return;
  program->push_back(Load(offset));
  if (mask != 0xffffffffu) program->push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
  program->push_back(JumpUnlessEqual(value, 0));
}

Program CaseProgram(const Case& one) {
  Program program;
  for (const ArgumentTest& test : one.all_of) {
    const std::uint32_t offset = offsetof(seccomp_data, args) + 8 * test.argument;
    AppendHalf(&program, offset, static_cast<std::uint32_t>(test.mask),
               static_cast<std::uint32_t>(test.value));
    AppendHalf(&program, offset + kUpperHalf, static_cast<std::uint32_t>(test.mask >> 32),
               static_cast<std::uint32_t>(test.value >> 32));
  }
  program.push_back(Return(one.action));
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program[i].code != (BPF_JMP | BPF_JEQ | BPF_K)) continue;
    program[i].jf = static_cast<std::uint8_t>(program.size() - i - 1);
  }
  return program;
}

}  // namespace

FilterBuilder::FilterBuilder(std::uint32_t arch, std::uint32_t max_syscall,
                             std::uint32_t foreign_action, std::uint32_t default_action)
    : arch_(arch),
      max_syscall_(max_syscall),
      foreign_action_(foreign_action),
      default_rule_{{}, default_action} {}

void FilterBuilder::Set(long syscall, std::uint32_t action) { SetCases(syscall, {}, action); }

void FilterBuilder::SetCases(long syscall, std::vector<Case> cases, std::uint32_t otherwise) {
  if (syscall < 0) return;
  const auto number = static_cast<std::uint32_t>(syscall);
  if (number > max_syscall_)
    throw Error("filter: syscall " + std::to_string(syscall) + " is out of range");
  if (!rules_.emplace(number, Rule{std::move(cases), otherwise}).second) {
    throw Error("filter: two rules for syscall " + std::to_string(syscall));
  }
}

std::vector<FilterBuilder::Range> FilterBuilder::Ranges() const {
  std::vector<Range> ranges;
  const auto add = [&ranges](std::uint32_t first, const Rule* rule) {
    const bool same = !ranges.empty() && rule->cases.empty() && ranges.back().rule->cases.empty() &&
                      ranges.back().rule->otherwise == rule->otherwise;
    if (!same) ranges.push_back({first, rule});
  };
  std::uint32_t next = 0;
  for (const auto& [number, rule] : rules_) {
    if (number > next) add(next, &default_rule_);
    add(number, &rule);
    next = number + 1;
  }
  if (next <= max_syscall_) add(next, &default_rule_);
  return ranges;
}

std::vector<sock_filter> FilterBuilder::Build() const {
  const std::vector<Range> ranges = Ranges();
  // Recursion over [begin, end): the number is known to lie in one of these ranges.
  const auto tree = [&ranges](const auto& self, std::size_t begin, std::size_t end) -> Program {
    Program program;
    if (end - begin == 1) {
      for (const Case& one : ranges[begin].rule->cases) Append(&program, CaseProgram(one));
      program.push_back(Return(ranges[begin].rule->otherwise));
      // A rule with cases has overwritten the accumulator, but it always ends in a return.
      return program;
    }
    const std::size_t middle = begin + (end - begin) / 2;
    const Program left = self(self, begin, middle);
    const Program right = self(self, middle, end);
    const std::uint32_t split = ranges[middle].first;
    if (left.size() <= 255) {
      program.push_back(
          BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, split, static_cast<std::uint8_t>(left.size()), 0));
    } else {
      program.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, split, 0, 1));
      program.push_back(BPF_STMT(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(left.size())));
    }
    Append(&program, left);
    Append(&program, right);
    return program;
  };
  Program program;
  program.push_back(Load(offsetof(seccomp_data, arch)));
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, arch_, 1, 0));
  program.push_back(Return(foreign_action_));
  program.push_back(Load(offsetof(seccomp_data, nr)));
  program.push_back(BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, max_syscall_, 0, 1));
  program.push_back(Return(foreign_action_));
  Append(&program, tree(tree, 0, ranges.size()));
  if (program.size() > BPF_MAXINSNS) throw Error("filter: program too long");
  return program;
}

}  // namespace agentmath::sandbox
