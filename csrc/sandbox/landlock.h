// Landlock: which files a process can open, decided by the kernel and inherited for ever.
#pragma once

#include <string>
#include <vector>

namespace agentmath::sandbox {

// Version of the kernel's Landlock interface, 0 where there is none.
int LandlockVersion();

// A ruleset that lets `readable` be read, `devices` be read and written, and `writable` folders be
// used freely for files, folders and symbolic links, but not for devices, FIFOs and sockets. All
// else is closed, as are TCP, abstract sockets and signals to the outside where the kernel knows
// how. Paths that do not exist are left out. Returns a descriptor that the caller closes; throws
// Error.
int MakeLandlockRuleset(const std::vector<std::string>& readable,
                        const std::vector<std::string>& devices,
                        const std::vector<std::string>& writable);

// Puts this process under the ruleset; no_new_privs must be set. Throws Error.
void RestrictSelf(int ruleset);

}  // namespace agentmath::sandbox
