// Namespaces and mounts that a zygote enters once, and the uid it runs under.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace agentmath::sandbox {

struct Namespaces {
  bool user = false;
  bool pid = false;  // of processes forked afterwards; the first of them is its process 1
  bool net = false;
  bool ipc = false;
  bool uts = false;
  bool mount = false;
};

// Moves this single-threaded process into new namespaces. With `user` its uid and gid appear as
// kInnerId and it holds all capabilities over the other new namespaces, none outside. Throws Error.
void EnterNamespaces(const Namespaces& wanted);

constexpr unsigned kInnerId = 1000;

// In a mount namespace of our own: makes every mount read-only, hides /proc, and puts an empty
// tmpfs at `scratch_base`, an existing folder. Throws Error.
void CloseMounts(const std::string& scratch_base);

// Makes folder `path` and mounts a tmpfs of limited size on it. Throws Error.
void MountScratch(const std::string& path, std::uint64_t max_bytes, std::uint64_t max_files);

// Unmounts and removes what MountScratch made, contents included.
void UnmountScratch(const std::string& path);

// Gives up root for an unprivileged uid and gid, for good. Throws Error.
void DropTo(uid_t id);

// Drops every capability. Throws Error.
void DropCapabilities();

}  // namespace agentmath::sandbox
