#include <poll.h>

#include <thread>

#include "check.h"
#include "core/error.h"
#include "sandbox/mailbox.h"

using agentmath::Error;
using agentmath::sandbox::Event;
using agentmath::sandbox::Mailbox;
using agentmath::sandbox::Order;
using agentmath::sandbox::Result;
using agentmath::sandbox::Want;

namespace {

bool IsReadable(int fd) {
  pollfd wait{fd, POLLIN, 0};
  return poll(&wait, 1, 0) == 1;
}

Result For(std::uint64_t number) {
  Result result;
  result.number = number;
  return result;
}

}  // namespace

TEST(orders_are_numbered_and_taken_in_order) {
  Mailbox mailbox;
  CHECK(!IsReadable(mailbox.orders_fd()));
  const std::uint64_t first = mailbox.Post({});
  const std::uint64_t second = mailbox.Post({});
  Order cancel;
  cancel.want = Want::kCancel;
  cancel.number = first;
  CHECK_EQUAL(mailbox.Post(cancel), first);
  CHECK(first != 0 && first < second);
  CHECK(IsReadable(mailbox.orders_fd()));
  const auto orders = mailbox.TakeOrders();
  CHECK_EQUAL(orders.size(), 3u);
  CHECK_EQUAL(orders[1].number, second);
  CHECK(!IsReadable(mailbox.orders_fd()));
}

TEST(a_result_goes_to_whoever_waits_for_it_else_to_all) {
  Mailbox mailbox;
  const std::uint64_t awaited = mailbox.Post({}, true);
  const std::uint64_t other = mailbox.Post({});
  CHECK(!mailbox.Wait(awaited, 0));
  mailbox.Publish(For(other));
  mailbox.Publish(For(awaited));
  CHECK(IsReadable(mailbox.results_fd()));
  const auto results = mailbox.TakeResults();
  CHECK_EQUAL(results.size(), 1u);
  CHECK_EQUAL(results[0].number, other);
  CHECK_EQUAL(mailbox.Wait(awaited, 1)->number, awaited);
  CHECK_THROWS(Error, mailbox.Wait(awaited, 0));
}

TEST(a_result_that_was_forgotten_is_nobodys) {
  Mailbox mailbox;
  const std::uint64_t number = mailbox.Post({}, true);
  mailbox.Forget(number);
  mailbox.Publish(For(number));
  CHECK_EQUAL(mailbox.TakeResults().size(), 1u);
}

TEST(many_threads_post_and_wait) {
  Mailbox mailbox;
  std::thread server([&mailbox] {
    for (int served = 0; served < 400;) {
      pollfd wait{mailbox.orders_fd(), POLLIN, 0};
      poll(&wait, 1, 1000);
      for (const Order& order : mailbox.TakeOrders()) {
        mailbox.Publish(For(order.number));
        ++served;
      }
    }
  });
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&mailbox] {
      for (int j = 0; j < 100; ++j) {
        const std::uint64_t number = mailbox.Post({}, true);
        const auto result = mailbox.Wait(number, 30);
        if (!result || result->number != number) std::abort();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  server.join();
}
