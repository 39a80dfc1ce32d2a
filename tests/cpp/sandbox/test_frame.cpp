#include <random>
#include <string>

#include "check.h"
#include "core/error.h"
#include "sandbox/frame.h"

using agentmath::Error;
using agentmath::sandbox::Command;
using agentmath::sandbox::EncodeCommand;
using agentmath::sandbox::EncodeReport;
using agentmath::sandbox::kMaxReportBytes;
using agentmath::sandbox::Outcome;
using agentmath::sandbox::ParseReport;
using agentmath::sandbox::Report;

namespace {

Report Sample() {
  Report report;
  report.outcome = Outcome::kException;
  report.sequence = 7;
  report.exit_code = -3;
  report.has_value = true;
  report.value = std::string("a\0b", 3);
  report.error = "ValueError: x";
  return report;
}

}  // namespace

TEST(a_command_lies_in_memory_as_the_child_reads_it) {
  Command command;
  command.sequence = 0x01020304;
  command.is_final = true;
  command.seed = 5;
  command.code = "ab";
  command.input = "c";
  const char expected[] =
      "\4\3\2\1"
      "\1"
      "\1"
      "\5\0\0\0\0\0\0\0"
      "\2\0\0\0"
      "\1\0\0\0"
      "abc";
  CHECK_EQUAL(EncodeCommand(command), std::string(expected, sizeof(expected) - 1));
}

TEST(a_report_survives_the_wire) {
  const std::string frame = EncodeReport(Sample());
  Report read;
  CHECK_EQUAL(ParseReport(frame, &read), frame.size());
  CHECK(read.outcome == Outcome::kException);
  CHECK_EQUAL(read.sequence, 7u);
  CHECK_EQUAL(read.exit_code, -3);
  CHECK(read.has_value);
  CHECK_EQUAL(read.value, Sample().value);
  CHECK_EQUAL(read.error, "ValueError: x");
}

TEST(every_beginning_of_a_frame_asks_for_more) {
  const std::string frame = EncodeReport(Sample());
  Report read;
  for (std::size_t size = 0; size < frame.size(); ++size) {
    CHECK_EQUAL(ParseReport(std::string_view(frame).substr(0, size), &read), 0u);
  }
}

TEST(what_follows_a_frame_is_left) {
  const std::string frame = EncodeReport(Sample());
  Report read;
  CHECK_EQUAL(ParseReport(frame + frame, &read), frame.size());
}

TEST(texts_are_cut_so_that_a_frame_is_never_too_long) {
  Report report = Sample();
  report.value.assign(1 << 20, 'v');
  report.error.assign(1 << 20, 'e');
  const std::string frame = EncodeReport(report);
  CHECK(frame.size() <= kMaxReportBytes);
  CHECK_EQUAL(ParseReport(frame, &report), frame.size());
  CHECK_EQUAL(report.value.back(), 'v');
}

TEST(impossible_frames_are_refused) {
  Report read;
  const std::string good = EncodeReport(Sample());
  CHECK_THROWS(Error, ParseReport("junkjunk", &read));
  CHECK_THROWS(Error, ParseReport(std::string(4, '\0'), &read));
  std::string outcome = good;
  outcome[4] = 9;
  CHECK_THROWS(Error, ParseReport(outcome, &read));
  std::string flag = good;
  flag[5] = 2;
  CHECK_THROWS(Error, ParseReport(flag, &read));
  std::string beyond = good;
  beyond[14] = 100;
  CHECK_THROWS(Error, ParseReport(beyond, &read));
  std::string left_over = good + "x";
  left_over[0] = static_cast<char>(left_over[0] + 1);
  CHECK_THROWS(Error, ParseReport(left_over, &read));
}

TEST(no_bytes_make_the_parser_read_beyond_them) {
  std::mt19937 random(11);
  const std::string good = EncodeReport(Sample());
  int parsed = 0;
  for (int round = 0; round < 200000; ++round) {
    std::string bytes = good.substr(0, random() % (good.size() + 1));
    const int num_changes = static_cast<int>(random() % 4);
    for (int i = 0; i < num_changes && !bytes.empty(); ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    // Heap memory of the exact size, so that a sanitizer sees the first byte too many.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    Report read;
    try {
      parsed += ParseReport({exact.data(), exact.size()}, &read) > 0;
    } catch (const Error&) {
    }
  }
  CHECK(parsed > 0);
}
