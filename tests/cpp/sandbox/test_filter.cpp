#include <map>
#include <random>

#include "check.h"
#include "core/error.h"
#include "sandbox/evaluate.h"
#include "sandbox/filter.h"

using agentmath::sandbox::FilterBuilder;

namespace {

constexpr std::uint32_t kArch = 17;
constexpr std::uint32_t kForeign = 1;
constexpr std::uint32_t kDefault = 2;

FilterBuilder Builder(std::uint32_t max_syscall = 1000) {
  return FilterBuilder(kArch, max_syscall, kForeign, kDefault);
}

}  // namespace

TEST(an_empty_filter_gives_the_default_to_every_known_number) {
  const auto program = Builder().Build();
  for (const long number : {0L, 1L, 500L, 1000L}) {
    CHECK_EQUAL(Evaluate(program, Call(kArch, number)), kDefault);
  }
}

TEST(another_architecture_or_a_higher_number_is_foreign) {
  FilterBuilder builder = Builder();
  builder.Set(5, 9);
  const auto program = builder.Build();
  CHECK_EQUAL(Evaluate(program, Call(kArch + 1, 5)), kForeign);
  CHECK_EQUAL(Evaluate(program, Call(kArch, 1001)), kForeign);
  CHECK_EQUAL(Evaluate(program, Call(kArch, -1)), kForeign);
  CHECK_EQUAL(Evaluate(program, Call(kArch, 5)), 9u);
}

TEST(neighbours_of_a_rule_are_untouched) {
  FilterBuilder builder = Builder();
  builder.Set(0, 7);
  builder.Set(10, 8);
  builder.Set(1000, 9);
  const auto program = builder.Build();
  const std::map<long, std::uint32_t> expected = {{0, 7},  {1, kDefault},   {9, kDefault}, {10, 8},
                                                  {11, 2}, {999, kDefault}, {1000, 9}};
  for (const auto& [number, action] : expected) {
    CHECK_EQUAL(Evaluate(program, Call(kArch, number)), action);
  }
}

TEST(the_first_case_whose_tests_all_hold_decides) {
  FilterBuilder builder = Builder();
  builder.SetCases(
      3, {{{{0, 0xffffffff, 1}, {2, ~0ull, 1ull << 40}}, 20}, {{{0, 0xffffffff, 1}}, 21}}, 22);
  const auto program = builder.Build();
  CHECK_EQUAL(Evaluate(program, Call(kArch, 3, {1, 0, 1ull << 40})), 20u);
  CHECK_EQUAL(Evaluate(program, Call(kArch, 3, {1, 0, 1})), 21u);
  CHECK_EQUAL(Evaluate(program, Call(kArch, 3, {2, 0, 1ull << 40})), 22u);
  CHECK_EQUAL(Evaluate(program, Call(kArch, 4, {1})), kDefault);
}

TEST(a_mask_looks_at_its_bits_only) {
  FilterBuilder builder = Builder();
  builder.SetCases(3, {{{{0, 0b110, 0b010}}, 20}}, 22);
  const auto program = builder.Build();
  CHECK_EQUAL(Evaluate(program, Call(kArch, 3, {0b011})), 20u);
  CHECK_EQUAL(Evaluate(program, Call(kArch, 3, {0xff00000002})), 20u);
  CHECK_EQUAL(Evaluate(program, Call(kArch, 3, {0b110})), 22u);
}

TEST(a_word_mask_sees_the_upper_half) {
  FilterBuilder builder = Builder();
  builder.SetCases(3, {{{{0, ~0ull, 0}}, 20}}, 22);
  const auto program = builder.Build();
  CHECK_EQUAL(Evaluate(program, Call(kArch, 3, {0})), 20u);
  CHECK_EQUAL(Evaluate(program, Call(kArch, 3, {1ull << 32})), 22u);
}

TEST(two_rules_for_one_number_are_refused_and_missing_numbers_ignored) {
  FilterBuilder builder = Builder();
  builder.Set(-1, 5);
  builder.Set(-1, 6);
  builder.Set(3, 5);
  CHECK_THROWS(agentmath::Error, (builder.Set(3, 6), 0));
  CHECK_THROWS(agentmath::Error, (builder.Set(1001, 6), 0));
}

TEST(random_filters_decide_as_a_table_would) {
  std::mt19937 random(7);
  for (int round = 0; round < 30; ++round) {
    FilterBuilder builder = Builder(5000);
    std::map<long, std::uint32_t> table;
    const int num_rules = static_cast<int>(random() % 400);
    for (int i = 0; i < num_rules; ++i) {
      const long number = static_cast<long>(random() % 5001);
      if (table.count(number) != 0) continue;
      table[number] = 10 + random() % 3;
      builder.Set(number, table[number]);
    }
    const auto program = builder.Build();
    for (long number = 0; number <= 5000; ++number) {
      const auto found = table.find(number);
      const std::uint32_t expected = found == table.end() ? kDefault : found->second;
      CHECK_EQUAL(Evaluate(program, Call(kArch, number)), expected);
    }
  }
}
