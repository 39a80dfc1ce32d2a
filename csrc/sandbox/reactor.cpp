#include "sandbox/reactor.h"

#include <sys/epoll.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "core/error.h"

namespace agentmath::sandbox {

double Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Reactor::Reactor() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw SystemError("sandbox: epoll_create1");
}

Reactor::Watch Reactor::Add(int fd, Handler handler) {
  const Watch watch = next_number_++;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = watch;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    throw SystemError("sandbox: watch a descriptor");
  }
  entries_[watch] = {fd, std::make_shared<Handler>(std::move(handler))};
  return watch;
}

void Reactor::WantWrite(Watch watch, bool wanted) {
  const auto found = entries_.find(watch);
  if (found == entries_.end()) return;
  epoll_event event{};
  event.events = EPOLLIN | (wanted ? EPOLLOUT : 0u);
  event.data.u64 = watch;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.fd, &event);
}

void Reactor::Remove(Watch* watch) {
  const auto found = entries_.find(*watch);
  *watch = kNone;
  if (found == entries_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, nullptr);
  entries_.erase(found);
}

Reactor::Timer Reactor::After(double seconds, Callback callback) {
  const Timer timer{Now() + seconds, next_number_++};
  timers_.emplace(timer, std::move(callback));
  return timer;
}

int Reactor::MillisecondsToNextTimer() const {
  if (timers_.empty()) return -1;
  const double milliseconds = std::ceil(1e3 * (timers_.begin()->first.first - Now()));
  return static_cast<int>(std::clamp(milliseconds, 0.0, 3.6e6));
}

void Reactor::RunOnce() {
  epoll_event events[64];
  const int count = epoll_wait(epoll_.get(), events, 64, MillisecondsToNextTimer());
  if (count < 0 && errno != EINTR) throw SystemError("sandbox: epoll_wait");
  for (int i = 0; i < count; ++i) {
    const auto found = entries_.find(events[i].data.u64);
    if (found == entries_.end()) continue;
    // Held here, because the handler may remove itself.
    const std::shared_ptr<Handler> handler = found->second.handler;
    (*handler)(events[i].events);
  }
  const double now = Now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    const Callback callback = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    callback();
  }
}

}  // namespace agentmath::sandbox
