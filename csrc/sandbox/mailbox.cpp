#include "sandbox/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "core/error.h"

namespace agentmath::sandbox {
namespace {

Descriptor MakeEvent() {
  Descriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) throw SystemError("sandbox: eventfd");
  return event;
}

void Raise(const Descriptor& event) { eventfd_write(event.get(), 1); }

void Lower(const Descriptor& event) {
  eventfd_t count = 0;
  eventfd_read(event.get(), &count);
}

}  // namespace

Mailbox::Mailbox() : orders_fd_(MakeEvent()), results_fd_(MakeEvent()) {}

std::uint64_t Mailbox::Post(Order order, bool is_awaited) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (order.number == 0) order.number = next_number_++;
  const std::uint64_t number = order.number;
  if (is_awaited) awaited_.emplace(number, std::nullopt);
  orders_.push_back(std::move(order));
  if (orders_.size() == 1) Raise(orders_fd_);
  return number;
}

std::vector<Order> Mailbox::TakeOrders() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Lower(orders_fd_);
  return std::exchange(orders_, {});
}

void Mailbox::Publish(Result result) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto awaited = awaited_.find(result.number);
  if (awaited != awaited_.end()) {
    awaited->second = std::move(result);
    answered_.notify_all();
    return;
  }
  results_.push_back(std::move(result));
  if (results_.size() == 1) Raise(results_fd_);
}

std::vector<Result> Mailbox::TakeResults() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Lower(results_fd_);
  return std::exchange(results_, {});
}

std::optional<Result> Mailbox::Wait(std::uint64_t number, double seconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto has_come = [this, number] {
    const auto found = awaited_.find(number);
    return found == awaited_.end() || found->second.has_value();
  };
  if (!answered_.wait_for(lock, std::chrono::duration<double>(seconds), has_come)) {
    return std::nullopt;
  }
  const auto found = awaited_.find(number);
  if (found == awaited_.end()) {
    throw Error("sandbox: nobody promised to wait for " + std::to_string(number));
  }
  Result result = std::move(*found->second);
  awaited_.erase(found);
  return result;
}

void Mailbox::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  orders_fd_.Close();
  results_fd_.Close();
}

void Mailbox::Forget(std::uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  awaited_.erase(number);
}

}  // namespace agentmath::sandbox
