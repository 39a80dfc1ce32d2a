#include "sandbox/stand_in.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "sandbox/frame.h"
#include "sandbox/fuzz.h"
#include "sandbox/messages.h"
#include "sandbox/zygote.h"

using agentmath::sandbox::EncodeReport;
using agentmath::sandbox::Outcome;
using agentmath::sandbox::Report;

namespace stand_in {
namespace {

std::string ReadExactly(std::size_t count) {
  std::string data(count, '\0');
  for (std::size_t have = 0; have < count;) {
    const ssize_t got = read(agentmath::sandbox::kChannel, data.data() + have, count - have);
    if (got <= 0) _exit(0);
    have += static_cast<std::size_t>(got);
  }
  return data;
}

template <typename T>
T Field(const std::string& data, std::size_t at) {
  T value;
  std::memcpy(&value, data.data() + at, sizeof(value));
  return value;
}

void Say(int fd, const std::string& text) {
  if (write(fd, text.data(), text.size()) < 0) _exit(99);
}

// Reports that are nearly right, in pieces, before the true one.
void Babble(const std::string& seed, const Report& own) {
  std::mt19937 random(static_cast<unsigned>(std::atoi(seed.c_str())));
  const std::vector<std::string> others = fuzz::ReportSeeds();
  const std::size_t count = random() % 4;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string bytes = fuzz::Mutate(EncodeReport(own), others, &random);
    const std::size_t cut = random() % (bytes.size() + 1);
    Say(agentmath::sandbox::kChannel, bytes.substr(0, cut));
    Say(agentmath::sandbox::kChannel, bytes.substr(cut));
  }
  if (random() % 4 == 0) _exit(static_cast<int>(random() % 256));
}

// `remembered` lives as long as the process: a session's state.
void Obey(const std::string& code, const std::string& input, std::string* remembered,
          Report* report) {
  const std::string word = code.substr(0, code.find(' '));
  const std::string rest = code.size() > word.size() ? code.substr(word.size() + 1) : "";
  if (word == "say") {
    Say(1, rest);
  } else if (word == "input") {
    Say(1, input);
  } else if (word == "remember") {
    *remembered = rest;
  } else if (word == "recall") {
    report->has_value = true;
    report->value = *remembered;
  } else if (word == "raise") {
    report->outcome = Outcome::kException;
    report->exit_code = 1;
    report->error = rest;
  } else if (word == "exit") {
    _exit(std::atoi(rest.c_str()));
  } else if (word == "spin") {
    for (volatile std::uint64_t i = 0;; i = i + 1) {
    }
  } else if (word == "sleep") {
    usleep(static_cast<useconds_t>(1e6 * std::atof(rest.c_str())));
  } else if (word == "flood") {
    for (;;) Say(1, std::string(1000, 'x'));
  } else if (word == "babble") {
    Babble(rest, *report);
  } else if (word == "junk") {
    Say(agentmath::sandbox::kChannel, std::string(100, '\xFF'));
  }
}

[[noreturn]] void RunChild() {
  std::string remembered;
  for (;;) {
    const std::string head = ReadExactly(22);
    const std::string code = ReadExactly(Field<std::uint32_t>(head, 14));
    const std::string input = ReadExactly(Field<std::uint32_t>(head, 18));
    Report report;
    report.sequence = Field<std::uint32_t>(head, 0);
    Obey(code, input, &remembered, &report);
    Say(agentmath::sandbox::kChannel, EncodeReport(report));
    if (head[4] != 0) _exit(report.exit_code);
  }
}

// A second voice at the zygote's end of the socket, which says what is nearly right.
void StartSecondVoice() {
  if (fork() != 0) return;
  std::mt19937 random(7);
  const std::vector<std::string> seeds = fuzz::NoticeSeeds();
  for (int i = 0; i < 2000; ++i) {
    const std::string bytes = fuzz::Mutate(seeds[random() % seeds.size()], seeds, &random);
    if (send(agentmath::sandbox::kChannel, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) break;
    usleep(500);
  }
  _exit(0);
}

}  // namespace

void RunZygote() {
  char setup[64] = {};
  if (recv(agentmath::sandbox::kChannel, setup, sizeof(setup) - 1, 0) <= 0) _exit(0);
  if (std::strcmp(setup, "die") == 0) _exit(1);
  if (std::strcmp(setup, "refuse") == 0) {
    Say(agentmath::sandbox::kChannel, "Fno reason at all");
    _exit(1);
  }
  char folder[] = "/tmp/agentmath-test-XXXXXX";
  if (mkdtemp(folder) == nullptr) _exit(1);
  agentmath::sandbox::ZygoteSettings settings;
  settings.control = agentmath::sandbox::kChannel;
  settings.statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  settings.scratch.base = folder;
  Say(agentmath::sandbox::kChannel, "R" + std::string(folder) + "\n" + setup);
  if (std::strcmp(setup, "babble") == 0) StartSecondVoice();
  const bool is_child = ServeZygote(settings, {[] {}, [] {}});
  if (is_child) RunChild();
  _exit(0);
}

}  // namespace stand_in
