// What supervisor and child say to each other on the child's channel (little endian, texts in
// UTF-8).
//
// A command hands over one block of code:
//
//   u32 sequence | u8 is_final | u8 is_seeded | u64 seed | u32 bytes of code | u32 bytes of input
//   | code | input
//
// The report a child sends after each block is what model code says about itself. Hostile input.
//
//   u32 length of the rest | u8 outcome | u8 has_value | u32 sequence | i32 exit_code
//   | u32 length, value | u32 length, error
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace agentmath::sandbox {

struct Command {
  std::uint32_t sequence = 0;
  bool is_final = false;  // the child exits after it
  std::optional<std::uint64_t> seed;
  std::string_view code;
  std::string_view input;
};

std::string EncodeCommand(const Command& command);

constexpr std::size_t kMaxReportBytes = 64 << 10;

enum class Outcome : std::uint8_t { kFinished = 0, kException = 1, kMemory = 2, kExit = 3 };

struct Report {
  Outcome outcome = Outcome::kFinished;
  std::uint32_t sequence = 0;
  std::int32_t exit_code = 0;
  bool has_value = false;
  std::string value;
  std::string error;
};

// Texts are cut so that the frame stays below kMaxReportBytes.
std::string EncodeReport(const Report& report);

// Reads one frame from the front of `bytes` and returns how many bytes it took, 0 when more are
// needed. Throws Error when the bytes cannot be the start of a frame.
std::size_t ParseReport(std::string_view bytes, Report* report);

}  // namespace agentmath::sandbox
