// The sandbox as its caller sees it: executions in, results out, a thread of its own in between.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "sandbox/dispatcher.h"
#include "sandbox/mailbox.h"

namespace agentmath::sandbox {

// All functions may be called from any thread.
class Supervisor {
 public:
  // Starts the thread and the first zygote. Throws Error.
  explicit Supervisor(DispatcherSettings settings);

  // Closes. In a process that was forked from the owner, where the thread does not exist, it only
  // lets go of the memory.
  ~Supervisor();

  Mailbox& mailbox() { return *mailbox_; }

  // Ends all processes; what still runs is answered as failed. Returns when they are gone.
  void Close();

 private:
  void Serve();

  const pid_t owner_;
  std::unique_ptr<Mailbox> mailbox_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::thread thread_;
};

}  // namespace agentmath::sandbox
