#include "sandbox/frame.h"

#include <algorithm>

#include "core/error.h"

namespace agentmath::sandbox {
namespace {

constexpr std::size_t kFixedBytes = 1 + 1 + 4 + 4 + 4 + 4;
constexpr std::size_t kMaxTextBytes = 16 << 10;

void PutU32(std::string* out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

void PutU64(std::string* out, std::uint64_t value) {
  PutU32(out, static_cast<std::uint32_t>(value));
  PutU32(out, static_cast<std::uint32_t>(value >> 32));
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::uint8_t U8() { return static_cast<std::uint8_t>(Take(1)[0]); }

  std::uint32_t U32() {
    const std::string_view raw = Take(4);
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      value |= static_cast<std::uint32_t>(static_cast<unsigned char>(raw[i])) << (8 * i);
    }
    return value;
  }

  std::string Text() { return std::string(Take(U32())); }

  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view Take(std::size_t count) {
    if (count > bytes_.size()) throw Error("report: a field reaches beyond its frame");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  std::string_view bytes_;
};

}  // namespace

std::string EncodeCommand(const Command& command) {
  std::string out;
  out.reserve(32 + command.code.size() + command.input.size());
  PutU32(&out, command.sequence);
  out.push_back(command.is_final ? 1 : 0);
  out.push_back(command.seed ? 1 : 0);
  PutU64(&out, command.seed.value_or(0));
  PutU32(&out, static_cast<std::uint32_t>(command.code.size()));
  PutU32(&out, static_cast<std::uint32_t>(command.input.size()));
  out.append(command.code);
  out.append(command.input);
  return out;
}

std::string EncodeReport(const Report& report) {
  const std::string_view value = std::string_view(report.value).substr(0, kMaxTextBytes);
  const std::string_view error = std::string_view(report.error).substr(0, kMaxTextBytes);
  std::string out;
  out.reserve(4 + kFixedBytes + value.size() + error.size());
  PutU32(&out, static_cast<std::uint32_t>(kFixedBytes + value.size() + error.size()));
  out.push_back(static_cast<char>(report.outcome));
  out.push_back(report.has_value ? 1 : 0);
  PutU32(&out, report.sequence);
  PutU32(&out, static_cast<std::uint32_t>(report.exit_code));
  PutU32(&out, static_cast<std::uint32_t>(value.size()));
  out.append(value);
  PutU32(&out, static_cast<std::uint32_t>(error.size()));
  out.append(error);
  return out;
}

std::size_t ParseReport(std::string_view bytes, Report* report) {
  if (bytes.size() < 4) return 0;
  const std::size_t length = Reader(bytes.substr(0, 4)).U32();
  if (length < kFixedBytes || length > kMaxReportBytes) {
    throw Error("report: a frame of " + std::to_string(length) + " bytes is not possible");
  }
  if (bytes.size() < 4 + length) return 0;
  Reader reader(bytes.substr(4, length));
  const std::uint8_t outcome = reader.U8();
  const std::uint8_t has_value = reader.U8();
  if (outcome > static_cast<std::uint8_t>(Outcome::kExit) || has_value > 1) {
    throw Error("report: unknown outcome or flag");
  }
  report->outcome = static_cast<Outcome>(outcome);
  report->has_value = has_value == 1;
  report->sequence = reader.U32();
  report->exit_code = static_cast<std::int32_t>(reader.U32());
  report->value = reader.Text();
  report->error = reader.Text();
  if (!reader.empty()) throw Error("report: bytes left over in a frame");
  return 4 + length;
}

}  // namespace agentmath::sandbox
