#include "sandbox/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

#include <cerrno>

#include "core/descriptor.h"
#include "core/error.h"

namespace agentmath::sandbox {
namespace {

constexpr int kAboveStandard = 10;

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// A trainer that closed its own standard descriptors may hold ours under their numbers.
Descriptor Above(int fd) { return Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, kAboveStandard)); }

}  // namespace

pid_t StartProcess(const Spawn& spawn) {
  const Descriptor control = Above(spawn.control);
  const Descriptor errors = Above(spawn.errors);
  if (!control || !errors) throw SystemError("sandbox: descriptors for the zygote");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, errors.get(), 2);
  posix_spawn_file_actions_adddup2(&actions, control.get(), 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  errno = posix_spawn(&pid, spawn.command.at(0).c_str(), &actions, &attributes,
                      Pointers(spawn.command).data(), Pointers(spawn.environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (errno != 0) throw SystemError("sandbox: start " + spawn.command.at(0));
  return pid;
}

}  // namespace agentmath::sandbox
