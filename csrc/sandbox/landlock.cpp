#include "sandbox/landlock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "core/error.h"
#include "sandbox/syscalls.h"

namespace agentmath::sandbox {
namespace {

// The kernel's interface, written out because installed headers are often older than the kernel.
struct RulesetAttributes {
  std::uint64_t handled_access_fs;
  std::uint64_t handled_access_net;  // version 4
  std::uint64_t scoped;              // version 6
};

struct __attribute__((packed)) PathRule {
  std::uint64_t allowed_access;
  std::int32_t parent_fd;
};

constexpr int kRulePathBeneath = 1;
constexpr std::uint32_t kVersionFlag = 1;

constexpr std::uint64_t kWriteFile = 1ull << 1;
constexpr std::uint64_t kReadFile = 1ull << 2;
constexpr std::uint64_t kReadDir = 1ull << 3;
constexpr std::uint64_t kRemoveDir = 1ull << 4;
constexpr std::uint64_t kRemoveFile = 1ull << 5;
constexpr std::uint64_t kMakeDir = 1ull << 7;
constexpr std::uint64_t kMakeReg = 1ull << 8;
constexpr std::uint64_t kMakeSym = 1ull << 12;
constexpr std::uint64_t kRefer = 1ull << 13;
constexpr std::uint64_t kTruncate = 1ull << 14;
constexpr std::uint64_t kForFiles = kWriteFile | kReadFile | kTruncate;

// Bits 0..12 came with version 1; refer, truncate and device ioctls followed with 2, 3 and 5.
std::uint64_t HandledFiles(int version) {
  std::uint64_t bits = (1ull << 13) - 1;
  if (version >= 2) bits |= kRefer;
  if (version >= 3) bits |= kTruncate;
  if (version >= 5) bits |= 1ull << 15;
  return bits;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  int Release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

void AddPath(int ruleset, const std::string& path, std::uint64_t access) {
  const Descriptor place(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (place.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == EACCES) return;
    throw SystemError("landlock: open " + path);
  }
  struct stat facts{};
  if (fstat(place.get(), &facts) != 0) throw SystemError("landlock: stat " + path);
  if (!S_ISDIR(facts.st_mode)) access &= kForFiles;
  const PathRule rule{access, place.get()};
  if (syscall(SYS_landlock_add_rule, ruleset, kRulePathBeneath, &rule, 0) != 0) {
    throw SystemError("landlock: allow " + path);
  }
}

}  // namespace

int LandlockVersion() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, kVersionFlag);
  return version > 0 ? static_cast<int>(version) : 0;
}

int MakeLandlockRuleset(const std::vector<std::string>& readable,
                        const std::vector<std::string>& devices,
                        const std::vector<std::string>& writable) {
  const int version = LandlockVersion();
  if (version == 0) {
    if (errno == EPERM) throw SystemError("landlock: refused from around this process");
    throw SystemError("landlock: not offered by this kernel");
  }
  RulesetAttributes attributes{HandledFiles(version), 0, 0};
  std::size_t size = offsetof(RulesetAttributes, handled_access_net);
  if (version >= 4) {
    attributes.handled_access_net = 3;  // TCP bind and connect
    size = offsetof(RulesetAttributes, scoped);
  }
  if (version >= 6) {
    attributes.scoped = 3;  // abstract sockets and signals
    size = sizeof(RulesetAttributes);
  }
  Descriptor ruleset(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
  if (ruleset.get() < 0) throw SystemError("landlock: create a ruleset");
  const std::uint64_t handled = attributes.handled_access_fs;
  for (const std::string& path : readable) AddPath(ruleset.get(), path, kReadFile | kReadDir);
  for (const std::string& path : devices) AddPath(ruleset.get(), path, kReadFile | kWriteFile);
  constexpr std::uint64_t kUse = kWriteFile | kReadFile | kReadDir | kRemoveDir | kRemoveFile |
                                 kMakeDir | kMakeReg | kMakeSym | kRefer | kTruncate;
  for (const std::string& path : writable) AddPath(ruleset.get(), path, kUse & handled);
  return ruleset.Release();
}

void RestrictSelf(int ruleset) {
  if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) throw SystemError("landlock: restrict");
}

}  // namespace agentmath::sandbox
