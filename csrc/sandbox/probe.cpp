#include "sandbox/probe.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "core/error.h"
#include "sandbox/landlock.h"
#include "sandbox/limits.h"
#include "sandbox/namespaces.h"
#include "sandbox/policy.h"

namespace agentmath::sandbox {
namespace {

std::string ReadAll(int fd) {
  std::string text;
  char buffer[512];
  for (;;) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
  }
}

[[noreturn]] void RunAndReport(const std::function<void()>& attempt, int fd) {
  int code = 0;
  try {
    attempt();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    code = write(fd, text.data(), text.size()) < 0 ? 2 : 1;
  }
  _exit(code);
}

void SetNoNewPrivileges() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) throw SystemError("set no_new_privs");
}

void TryLimits() {
  ResourceLimits limits;
  limits.address_space_bytes = limits.data_bytes = 1ull << 40;
  limits.file_bytes = 1 << 20;
  limits.stack_bytes = 8 << 20;
  limits.open_files = 64;
  ApplyLimits(limits);
}

void TrySeccomp() {
  SetNoNewPrivileges();
  InstallFilter(Policy(false).For(getpid()));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd >= 0 || errno != EPERM) throw Error("the filter was installed but did not act");
}

void TryPidNamespace(const Namespaces& wanted) {
  EnterNamespaces(wanted);
  const pid_t child = fork();
  if (child < 0) throw SystemError("fork into the new namespace");
  if (child == 0) _exit(getpid() == 1 ? 0 : 1);
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) {
    throw Error("the first process of the new namespace is not process 1");
  }
}

void TryLandlock() {
  SetNoNewPrivileges();
  RestrictSelf(MakeLandlockRuleset({}, {"/dev/null"}, {}));
  if (open("/dev/null", O_RDWR | O_CLOEXEC) < 0) throw SystemError("open /dev/null under Landlock");
  if (open("/dev/zero", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES) {
    throw Error("the ruleset was installed but did not act");
  }
}

}  // namespace

Probe ProbeInChild(const std::string& layer, const std::function<void()>& attempt) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw SystemError("probe: pipe");
  const pid_t child = fork();
  if (child < 0) throw SystemError("probe: fork");
  if (child == 0) RunAndReport(attempt, ends[1]);
  close(ends[1]);
  Probe probe{layer, false, ReadAll(ends[0])};
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  probe.available = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!probe.available && probe.why_not.empty()) {
    probe.why_not = "the trial ended with wait status " + std::to_string(status);
  }
  return probe;
}

Probe ProbeUidDrop(unsigned id, const std::vector<std::string>& needed) {
  if (geteuid() != 0) return {"uid_drop", false, "not root, so there is no privilege to give up"};
  return ProbeInChild("uid_drop", [&] {
    DropTo(id);
    for (const std::string& path : needed) {
      if (access(path.c_str(), R_OK) != 0)
        throw SystemError("uid " + std::to_string(id) + " cannot read " + path);
    }
  });
}

std::vector<Probe> ProbeLayers(const std::string& scratch_base, bool wants_user_namespace) {
  std::vector<Probe> probes;
  probes.push_back(ProbeInChild("no_new_privs", SetNoNewPrivileges));
  probes.push_back(ProbeInChild("rlimits", TryLimits));
  probes.push_back(ProbeInChild("seccomp", TrySeccomp));
  probes.push_back(ProbeInChild("landlock", TryLandlock));
  Namespaces base;
  base.user = true;
  probes.push_back(ProbeInChild("user_namespace", [base] { EnterNamespaces(base); }));
  base.user = probes.back().available && wants_user_namespace;
  const auto with = [&base](bool Namespaces::* which) {
    Namespaces wanted = base;
    wanted.*which = true;
    return wanted;
  };
  const Namespaces pid = with(&Namespaces::pid);
  const Namespaces net = with(&Namespaces::net);
  const Namespaces ipc = with(&Namespaces::ipc);
  const Namespaces uts = with(&Namespaces::uts);
  const Namespaces mount = with(&Namespaces::mount);
  probes.push_back(ProbeInChild("pid_namespace", [pid] { TryPidNamespace(pid); }));
  probes.push_back(ProbeInChild("net_namespace", [net] { EnterNamespaces(net); }));
  probes.push_back(ProbeInChild("ipc_namespace", [ipc] { EnterNamespaces(ipc); }));
  probes.push_back(ProbeInChild("uts_namespace", [uts] { EnterNamespaces(uts); }));
  probes.push_back(ProbeInChild("mount_namespace", [mount, &scratch_base] {
    EnterNamespaces(mount);
    CloseMounts(scratch_base);
    MountScratch(scratch_base + "/probe", 1 << 16, 16);
    UnmountScratch(scratch_base + "/probe");
  }));
  return probes;
}

}  // namespace agentmath::sandbox
