#include "sandbox/namespaces.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "core/error.h"
#include "sandbox/syscalls.h"

namespace agentmath::sandbox {
namespace {

struct MountAttributes {
  std::uint64_t set;
  std::uint64_t clear;
  std::uint64_t propagation;
  std::uint64_t userns_fd;
};

constexpr std::uint64_t kReadOnly = 1;
constexpr int kRecursive = 0x8000;  // AT_RECURSIVE

void WriteFile(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) throw SystemError(std::string("open ") + path);
  const ssize_t written = write(fd, text.data(), text.size());
  const Error error = SystemError(std::string("write ") + path);
  close(fd);
  if (written != static_cast<ssize_t>(text.size())) throw error;
}

std::string MapTo(unsigned outer) {
  return std::to_string(kInnerId) + " " + std::to_string(outer) + " 1\n";
}

void MountTmpfs(const std::string& path, unsigned long flags, const std::string& options) {
  flags |= MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (mount("tmpfs", path.c_str(), "tmpfs", flags, options.c_str()) != 0) {
    throw SystemError("mount a tmpfs on " + path);
  }
}

}  // namespace

void EnterNamespaces(const Namespaces& wanted) {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  int flags = 0;
  if (wanted.user) flags |= CLONE_NEWUSER;
  if (wanted.pid) flags |= CLONE_NEWPID;
  if (wanted.net) flags |= CLONE_NEWNET;
  if (wanted.ipc) flags |= CLONE_NEWIPC;
  if (wanted.uts) flags |= CLONE_NEWUTS;
  if (wanted.mount) flags |= CLONE_NEWNS;
  if (flags == 0) return;
  if (unshare(flags) != 0) throw SystemError("unshare");
  if (wanted.user) {
    // An unprivileged process may map its gid only after giving up setgroups.
    WriteFile("/proc/self/setgroups", "deny");
    WriteFile("/proc/self/uid_map", MapTo(uid));
    WriteFile("/proc/self/gid_map", MapTo(gid));
  }
  if (wanted.uts && sethostname("sandbox", 7) != 0) throw SystemError("sethostname");
}

void CloseMounts(const std::string& scratch_base) {
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    throw SystemError("make mounts private");
  }
  const MountAttributes read_only{kReadOnly, 0, 0, 0};
  if (syscall(SYS_mount_setattr, AT_FDCWD, "/", kRecursive, &read_only, sizeof(read_only)) != 0) {
    throw SystemError("make mounts read-only");
  }
  MountTmpfs(scratch_base, 0, "mode=0700,size=1m,nr_inodes=65536");
  MountTmpfs("/proc", MS_RDONLY, "mode=0500,size=4k,nr_inodes=2");
}

void MountScratch(const std::string& path, std::uint64_t max_bytes, std::uint64_t max_files) {
  if (mkdir(path.c_str(), 0700) != 0) throw SystemError("mkdir " + path);
  try {
    MountTmpfs(
        path, 0,
        "mode=0700,size=" + std::to_string(max_bytes) + ",nr_inodes=" + std::to_string(max_files));
  } catch (...) {
    rmdir(path.c_str());
    throw;
  }
}

void UnmountScratch(const std::string& path) {
  if (umount2(path.c_str(), MNT_DETACH) != 0) throw SystemError("unmount " + path);
  if (rmdir(path.c_str()) != 0) throw SystemError("rmdir " + path);
}

void DropTo(uid_t id) {
  if (setgroups(0, nullptr) != 0) throw SystemError("drop groups");
  if (setresgid(id, id, id) != 0) throw SystemError("drop the gid");
  if (setresuid(id, id, id) != 0) throw SystemError("drop the uid");
  // A changed uid gives /proc/self to root, and then no uid map could be written.
  if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) throw SystemError("stay dumpable");
}

void DropCapabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capset, &header, none) != 0) throw SystemError("drop capabilities");
}

}  // namespace agentmath::sandbox
