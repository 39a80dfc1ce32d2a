// Tries each isolation layer once in a throw-away child: the only way to know whether this machine
// allows it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace agentmath::sandbox {

struct Probe {
  std::string layer;
  bool available = false;
  std::string why_not;  // empty when available
};

// Carries out `attempt` in a throw-away child; available when it throws nothing. Throws Error when
// no child can be made.
Probe ProbeInChild(const std::string& layer, const std::function<void()>& attempt);

// As root: can an unprivileged uid read all of `needed` paths? Otherwise unavailable, with the
// reason.
Probe ProbeUidDrop(unsigned id, const std::vector<std::string>& needed);

// no_new_privs, rlimits, seccomp, landlock, user_namespace, pid_namespace, net_namespace,
// ipc_namespace, uts_namespace, mount_namespace (with a tmpfs at `scratch_base`), in this order.
// The other namespaces are tried inside a user namespace when there is one and it is wanted.
std::vector<Probe> ProbeLayers(const std::string& scratch_base, bool wants_user_namespace);

}  // namespace agentmath::sandbox
