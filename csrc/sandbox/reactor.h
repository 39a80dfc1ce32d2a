// One epoll and a set of timers: everything the supervisor's thread waits for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "core/descriptor.h"

namespace agentmath::sandbox {

// Seconds on the monotonic clock.
double Now();

class Reactor {
 public:
  using Handler = std::function<void(std::uint32_t events)>;
  using Callback = std::function<void()>;

  // What is watched, by a number that is never used twice: an event that was already fetched for a
  // descriptor which has been closed meanwhile reaches nobody.
  using Watch = std::uint64_t;
  static constexpr Watch kNone = 0;

  // When, and a number that tells timers of the same moment apart.
  using Timer = std::pair<double, std::uint64_t>;

  // Throws Error.
  Reactor();

  // Calls `handler` whenever `fd` can be read. Throws Error.
  Watch Add(int fd, Handler handler);

  // Whether the handler is also called when the descriptor can be written.
  void WantWrite(Watch watch, bool wanted);

  // Stops watching and clears `watch`; must come before the descriptor is closed.
  void Remove(Watch* watch);

  Timer After(double seconds, Callback callback);

  // Harmless for a timer that has fired.
  void Cancel(const Timer& timer) { timers_.erase(timer); }

  // Waits for the next event or time and handles all that are due. Throws Error.
  void RunOnce();

 private:
  struct Entry {
    int fd;
    std::shared_ptr<Handler> handler;
  };

  int MillisecondsToNextTimer() const;

  Descriptor epoll_;
  std::uint64_t next_number_ = 1;
  std::unordered_map<Watch, Entry> entries_;
  std::map<Timer, Callback> timers_;
};

}  // namespace agentmath::sandbox
