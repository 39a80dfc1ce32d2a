#include "sandbox/fuzz.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "check.h"
#include "core/error.h"
#include "sandbox/frame.h"
#include "sandbox/messages.h"
#include "sandbox/verdict.h"

using namespace agentmath::sandbox;

namespace fuzz {
namespace {

// On the heap and of the exact size, so that a sanitizer sees the first byte too many.
template <typename Body>
auto OnExactBytes(std::string_view bytes, const Body& body) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  return body(std::string_view(exact.data(), exact.size()));
}

// A frame that is accepted is the one that our own encoder writes for what was read.
std::size_t ParseOne(std::string_view bytes, Report* report) {
  const std::size_t used = ParseReport(bytes, report);
  CHECK(used <= bytes.size());
  if (used == 0) {
    CHECK(bytes.size() < kMaxReportBytes + 4);
    return 0;
  }
  CHECK(report->outcome <= Outcome::kExit);
  const std::string again = EncodeReport(*report);
  // Longer texts than ours are taken, and cut when they are written again.
  constexpr std::size_t kUncut = 16 << 10;
  if (report->value.size() <= kUncut && report->error.size() <= kUncut) {
    CHECK(again == bytes.substr(0, used));
  }
  Report reread;
  CHECK_EQUAL(ParseReport(again, &reread), again.size());
  CHECK(reread.sequence == report->sequence && reread.exit_code == report->exit_code &&
        reread.has_value == report->has_value);
  return used;
}

template <typename Record>
std::string Bytes(const Record& record) {
  std::string bytes(sizeof(record), '\0');
  std::memcpy(bytes.data(), &record, sizeof(record));
  return bytes;
}

std::string Piece(const std::string& text, std::mt19937* random) {
  if (text.empty()) return text;
  const std::size_t at = (*random)() % text.size();
  return text.substr(at, (*random)() % (text.size() - at + 1));
}

// Numbers at which lengths, kinds and signs go wrong.
std::uint32_t Edge(std::size_t size, std::mt19937* random) {
  const std::uint32_t edges[] = {0,
                                 1,
                                 2,
                                 3,
                                 4,
                                 0x7F,
                                 0xFF,
                                 kMaxReportBytes,
                                 kMaxReportBytes + 1,
                                 0x7FFFFFFF,
                                 0x80000000,
                                 0xFFFFFFFF,
                                 static_cast<std::uint32_t>(size),
                                 static_cast<std::uint32_t>(size) - 4,
                                 static_cast<std::uint32_t>(size) + 1,
                                 static_cast<std::uint32_t>((*random)())};
  return edges[(*random)() % std::size(edges)];
}

// The same of eight bytes, fractions among them.
std::uint64_t WideEdge(std::mt19937* random) {
  const double fractions[] = {0.0, -0.0, -1.0, 1e300, HUGE_VAL, -HUGE_VAL, std::nan("")};
  std::uint64_t edge = 0;
  std::memcpy(&edge, &fractions[(*random)() % std::size(fractions)], sizeof(edge));
  return edge;
}

template <typename Number>
void Overwrite(std::string* bytes, std::size_t at, Number number) {
  if (at + sizeof(number) <= bytes->size())
    std::memcpy(bytes->data() + at, &number, sizeof(number));
}

void ChangeOnce(std::string* bytes, const std::vector<std::string>& others, std::mt19937* random) {
  const std::size_t at = bytes->empty() ? 0 : (*random)() % bytes->size();
  switch ((*random)() % 8) {
    case 0:
      if (!bytes->empty()) (*bytes)[at] ^= static_cast<char>(1u << ((*random)() % 8));
      break;
    case 1:
      if (!bytes->empty()) (*bytes)[at] = static_cast<char>((*random)());
      break;
    case 2:  // by a chance of a half where a number stands
      Overwrite(bytes, (*random)() % 2 == 0 ? at / 4 * 4 : at, Edge(bytes->size(), random));
      break;
    case 7:
      Overwrite(bytes, at / 8 * 8, WideEdge(random));
      break;
    case 3:
      bytes->erase(at, (*random)() % 16);
      break;
    case 4:
      bytes->insert(at, Piece(*bytes, random));
      break;
    case 5:
      bytes->resize(at);
      break;
    default:
      *bytes = bytes->substr(0, at) + Piece(others[(*random)() % others.size()], random);
  }
  bytes->resize(std::min<std::size_t>(bytes->size(), 4 * kMaxReportBytes));
}

}  // namespace

bool TryReports(std::string_view bytes) {
  return OnExactBytes(bytes, [](std::string_view stream) {
    int num_read = 0;
    try {
      Report report;
      while (const std::size_t used = ParseOne(stream, &report)) {
        stream.remove_prefix(used);
        ++num_read;
      }
    } catch (const agentmath::Error&) {
      return false;
    }
    return num_read > 0;
  });
}

bool TryNotice(std::string_view bytes) {
  return OnExactBytes(bytes, [](std::string_view message) {
    Notice notice;
    if (!ParseNotice(message, &notice)) return false;
    CHECK_EQUAL(message.size(), sizeof(Notice));
    CHECK(notice.tell <= Tell::kExited && notice.pid >= 0 && notice.ran_out_of_memory <= 1);
    CHECK(std::isfinite(notice.cpu_seconds) && notice.cpu_seconds >= 0);
    CHECK(WIFEXITED(notice.wait_status) != WIFSIGNALED(notice.wait_status));
    return true;
  });
}

bool TryRequest(std::string_view bytes) {
  return OnExactBytes(bytes, [](std::string_view message) {
    Request request;
    if (!ParseRequest(message, &request)) return false;
    CHECK_EQUAL(message.size(), sizeof(Request));
    CHECK(request.ask <= Ask::kAllowCpu);
    return true;
  });
}

bool TryGreeting(std::string_view bytes) {
  return OnExactBytes(bytes, [](std::string_view message) {
    const Greeting greeting = ParseGreeting(message);
    const std::string& folder = greeting.scratch_folder;
    CHECK(greeting.is_ready || folder.empty());
    CHECK(folder.empty() || folder.find("/agentmath-") != std::string::npos);
    CHECK(folder.find("/../") == std::string::npos && folder.find('\n') == std::string::npos);
    CHECK(greeting.text.size() <= std::max<std::size_t>(message.size(), 64));
    return greeting.is_ready;
  });
}

// The kernel's record rules: whatever the report says, it cannot make a dead process look well, nor
// the sandbox guilty.
bool TryEnd(std::string_view bytes) {
  Notice notice;
  if (!ParseNotice(bytes.substr(0, sizeof(Notice)), &notice)) return false;
  Report report;
  bool has_report = false;
  try {
    const std::string_view rest = bytes.substr(std::min(bytes.size(), sizeof(Notice)));
    has_report = ParseReport(rest, &report) > 0;
  } catch (const agentmath::Error&) {
    has_report = false;
  }
  End end;
  end.wait_status = notice.wait_status;
  end.cpu_seconds = notice.cpu_seconds;
  end.cpu_limit_seconds = 1;
  end.ran_out_of_memory = notice.ran_out_of_memory == 1;
  const Verdict verdict = OfDeadChild(end, has_report ? &report : nullptr);
  const bool left = WIFEXITED(notice.wait_status);
  CHECK_EQUAL(verdict.exit_code.has_value(), left);
  CHECK_EQUAL(verdict.signal.has_value(), !left);
  if (left) CHECK_EQUAL(*verdict.exit_code, WEXITSTATUS(notice.wait_status));
  if (verdict.status == Status::kOk) {
    CHECK(left && has_report && *verdict.exit_code == 0);
  } else {
    CHECK(verdict.error.has_value() || verdict.status == Status::kException ||
          verdict.status == Status::kMemory);
  }
  CHECK(!verdict.value || verdict.status == Status::kOk);
  for (const Status ours : {Status::kSandboxError, Status::kQueueTimeout, Status::kCancelled,
                            Status::kSessionLost, Status::kWallTimeout, Status::kOutputLimit}) {
    CHECK(verdict.status != ours);
  }
  if (verdict.status == Status::kSyscallViolation) {
    CHECK_EQUAL(verdict.signal.value(), SIGSYS);
  }
  return true;
}

std::vector<std::string> ReportSeeds() {
  std::vector<std::string> seeds;
  for (const std::size_t size : {0u, 1u, 13u, 300u, 16u << 10, 40u << 10}) {
    Report report;
    report.outcome = static_cast<Outcome>(size % 4);
    report.sequence = static_cast<std::uint32_t>(size);
    report.exit_code = size % 2 == 0 ? 0 : -3;
    report.has_value = size > 0;
    report.value.assign(size, 'v');
    report.error.assign(size / 2, 'e');
    seeds.push_back(EncodeReport(report));
  }
  seeds.push_back(seeds[1] + seeds[2] + seeds[0]);
  return seeds;
}

std::vector<std::string> NoticeSeeds() {
  std::vector<std::string> seeds;
  for (const int wait_status : {0, 3 << 8, 255 << 8, SIGKILL, SIGSYS, SIGSEGV | 0x80, 0x137F}) {
    for (const Tell tell : {Tell::kStarted, Tell::kNotStarted, Tell::kExited}) {
      Notice notice;
      notice.tell = tell;
      notice.child = static_cast<std::uint32_t>(seeds.size());
      notice.pid = 77;
      notice.wait_status = wait_status;
      notice.cpu_seconds = 0.25 * static_cast<double>(seeds.size());
      notice.ran_out_of_memory = seeds.size() % 2;
      seeds.push_back(Bytes(notice));
    }
  }
  return seeds;
}

std::vector<std::string> RequestSeeds() {
  std::vector<std::string> seeds;
  for (const Ask ask : {Ask::kFork, Ask::kKill, Ask::kAllowCpu}) {
    Request request;
    request.ask = ask;
    request.child = 3;
    request.cpu_seconds = 2;
    request.memory_bytes = 1 << 29;
    seeds.push_back(Bytes(request));
  }
  return seeds;
}

std::vector<std::string> GreetingSeeds() {
  return {"R\n[]", "R/tmp/agentmath-sandbox-00ff\n[[\"seccomp\", true, \"\"]]", "FValueError: no",
          "R/tmp/x/../agentmath-y\n", "R"};
}

std::string Mutate(const std::string& seed, const std::vector<std::string>& others,
                   std::mt19937* random) {
  std::string bytes = seed;
  const int num_changes = 1 + static_cast<int>((*random)() % 6);
  for (int i = 0; i < num_changes; ++i) ChangeOnce(&bytes, others, random);
  return bytes;
}

}  // namespace fuzz
