// Between the threads of the caller and the supervisor's own: requests one way, results the other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/descriptor.h"
#include "sandbox/verdict.h"

namespace agentmath::sandbox {

struct Execution {
  std::string code;
  std::string input;  // what the code reads as standard input
  Bounds bounds;
  std::uint64_t session = 0;  // 0 for none
  std::optional<std::uint64_t> seed = {};
};

enum class Want { kRun, kCancel, kOpenSession, kCloseSession, kEnd };

struct Order {
  Want want = Want::kRun;
  std::uint64_t number = 0;  // of the execution, session or request
  Execution execution;
  std::uint64_t session = 0;  // to be closed
};

enum class Event {
  kReady,   // text: the first zygote's description
  kFailed,  // text: why nothing can be run any more; of one request, or of none (number 0)
  kBlockEnded,
  kSessionClosed,
};

struct Result {
  std::uint64_t number = 0;  // of the order; 0 when it answers none
  Event event = Event::kBlockEnded;
  std::string text;
  Verdict verdict;
  std::string out, err;
  std::uint64_t out_bytes = 0;
  std::uint64_t err_bytes = 0;
  double cpu_seconds = 0;
  double wall_seconds = 0;
  double queue_seconds = 0;
  std::uint64_t peak_memory_bytes = 0;
};

// All functions may be called from any thread.
class Mailbox {
 public:
  // Throws Error.
  Mailbox();

  // Readable whenever there are orders, or results, to be taken.
  int orders_fd() const { return orders_fd_.get(); }
  int results_fd() const { return results_fd_.get(); }

  // Gives the order a number, its own. With `is_awaited` its result is kept for Wait.
  std::uint64_t Post(Order order, bool is_awaited = false);

  std::vector<Order> TakeOrders();

  void Publish(Result result);

  std::vector<Result> TakeResults();

  // Waits for the result of an awaited order; nothing after `seconds`, then it can be waited for
  // again.
  std::optional<Result> Wait(std::uint64_t number, double seconds);

  // Closes both descriptors; what is posted or published afterwards wakes nobody.
  void Close();

  // Nobody will ask for the result of an awaited order any more.
  void Forget(std::uint64_t number);

 private:
  Descriptor orders_fd_, results_fd_;
  std::mutex mutex_;
  std::condition_variable answered_;
  std::uint64_t next_number_ = 1;
  std::vector<Order> orders_;
  std::vector<Result> results_;
  std::unordered_map<std::uint64_t, std::optional<Result>> awaited_;
};

}  // namespace agentmath::sandbox
