// Starting the zygote's program without forking the trainer.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace agentmath::sandbox {

struct Spawn {
  std::vector<std::string> command;      // argv; the first is the program's path
  std::vector<std::string> environment;  // "NAME=value"
  int control = -1;                      // becomes descriptor 3
  int errors = -1;                       // becomes stderr
};

// The new process leads a session of its own, with default signals and /dev/null as input and
// output. Throws Error.
pid_t StartProcess(const Spawn& spawn);

}  // namespace agentmath::sandbox
