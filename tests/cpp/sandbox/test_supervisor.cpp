#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "check.h"
#include "sandbox/supervisor.h"

using agentmath::sandbox::Bounds;
using agentmath::sandbox::DispatcherSettings;
using agentmath::sandbox::Event;
using agentmath::sandbox::Execution;
using agentmath::sandbox::Mentions;
using agentmath::sandbox::Name;
using agentmath::sandbox::Order;
using agentmath::sandbox::Result;
using agentmath::sandbox::Supervisor;
using agentmath::sandbox::Want;
using agentmath::sandbox::ZygoteKind;

namespace {

constexpr double kPatienceSeconds = 60;

// Memory beyond what sanitizers take.
Bounds Usual() { return {20, 20, 1ull << 45, 1000, 1 << 20}; }

std::string Myself() {
  char path[4096] = {};
  CHECK(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
  return path;
}

DispatcherSettings Settings(const std::string& setup = "plain") {
  ZygoteKind kind;
  kind.settings.command = {Myself(), "--zygote"};
  kind.settings.setup = setup;
  kind.settings.num_parked = 2;
  kind.settings.memory_bytes = Usual().memory_bytes;
  kind.settings.file_bytes = Usual().file_bytes;
  kind.settings.cpu_seconds = 20;
  DispatcherSettings settings;
  settings.kinds.push_back(kind);
  settings.num_workers = 2;
  settings.queue_seconds = 40;
  settings.idle_cpu_seconds = 20;
  return settings;
}

std::uint64_t Submit(Supervisor* supervisor, const std::string& code, std::uint64_t session = 0,
                     const Bounds& bounds = Usual()) {
  Order order;
  order.execution = {code, "given", bounds, session};
  return supervisor->mailbox().Post(std::move(order), true);
}

Result Wait(Supervisor* supervisor, std::uint64_t number) {
  const auto result = supervisor->mailbox().Wait(number, kPatienceSeconds);
  CHECK(result.has_value());
  return *result;
}

Result Run(Supervisor* supervisor, const std::string& code, std::uint64_t session = 0,
           const Bounds& bounds = Usual()) {
  return Wait(supervisor, Submit(supervisor, code, session, bounds));
}

std::string StatusOf(const Result& result) {
  return result.event == Event::kFailed ? "failed: " + result.text : Name(result.verdict.status);
}

std::uint64_t Post(Supervisor* supervisor, Want want, std::uint64_t number = 0,
                   std::uint64_t session = 0) {
  Order order;
  order.want = want;
  order.number = number;
  order.session = session;
  return supervisor->mailbox().Post(std::move(order), want == Want::kCloseSession);
}

// The pid of the only child of this process: the zygote.
pid_t Zygote() {
  pid_t pid = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* task = readdir(tasks)) {
    std::ifstream children("/proc/self/task/" + std::string(task->d_name) + "/children");
    children >> pid;
  }
  closedir(tasks);
  return pid;
}

int NumDescriptors() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

}  // namespace

TEST(a_word_of_its_own_is_a_mention) {
  CHECK(Mentions("import sympy", {"numpy", "sympy"}));
  CHECK(Mentions("numpy.ones(3)", {"numpy"}));
  CHECK(!Mentions("mynumpy = numpy_like", {"numpy"}));
  CHECK(Mentions("numpys = numpy", {"numpy"}));
  CHECK(!Mentions("", {"numpy"}));
}

TEST(executions_end_as_they_should) {
  Supervisor supervisor(Settings());
  CHECK_EQUAL(Run(&supervisor, "say hello").out, "hello");
  CHECK_EQUAL(Run(&supervisor, "input").out, "given");
  CHECK_EQUAL(StatusOf(Run(&supervisor, "raise it")), "exception");
  CHECK_EQUAL(Run(&supervisor, "exit 3").verdict.exit_code.value(), 3);
  CHECK_EQUAL(StatusOf(Run(&supervisor, "junk")), "protocol_error");
  CHECK_EQUAL(StatusOf(Run(&supervisor, "flood")), "output_limit");
  Bounds hasty = Usual();
  hasty.wall_seconds = 0.2;
  CHECK_EQUAL(StatusOf(Run(&supervisor, "sleep 30", 0, hasty)), "wall_timeout");
  hasty = Usual();
  hasty.cpu_seconds = 0.2;
  CHECK_EQUAL(StatusOf(Run(&supervisor, "spin", 0, hasty)), "cpu_timeout");
}

TEST(a_session_remembers_and_is_lost_with_its_process) {
  Supervisor supervisor(Settings());
  const std::uint64_t session = Post(&supervisor, Want::kOpenSession);
  CHECK_EQUAL(StatusOf(Run(&supervisor, "remember 42", session)), "ok");
  CHECK_EQUAL(Run(&supervisor, "recall", session).verdict.value.value(), "42");
  CHECK_EQUAL(StatusOf(Run(&supervisor, "exit 0", session)), "exit");
  CHECK_EQUAL(StatusOf(Run(&supervisor, "recall", session)), "session_lost");
  const std::uint64_t closed = Post(&supervisor, Want::kCloseSession, 0, session);
  CHECK(Wait(&supervisor, closed).event == Event::kSessionClosed);
  CHECK_EQUAL(StatusOf(Run(&supervisor, "recall", session)), "session_lost");
}

TEST(blocks_of_a_session_run_one_after_another) {
  Supervisor supervisor(Settings());
  const std::uint64_t session = Post(&supervisor, Want::kOpenSession);
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < 20; ++i) {
    numbers.push_back(Submit(&supervisor, "remember " + std::to_string(i), session));
    numbers.push_back(Submit(&supervisor, "recall", session));
  }
  for (int i = 0; i < 20; ++i) {
    Wait(&supervisor, numbers[2 * i]);
    CHECK_EQUAL(Wait(&supervisor, numbers[2 * i + 1]).verdict.value.value(), std::to_string(i));
  }
}

TEST(a_cancelled_call_is_answered_and_its_process_gone) {
  Supervisor supervisor(Settings());
  const std::uint64_t running = Submit(&supervisor, "sleep 100");
  const std::uint64_t other = Submit(&supervisor, "sleep 100");
  const std::uint64_t waiting = Submit(&supervisor, "sleep 100");
  for (const std::uint64_t number : {waiting, running, other}) {
    Post(&supervisor, Want::kCancel, number);
    CHECK_EQUAL(StatusOf(Wait(&supervisor, number)), "cancelled");
  }
  CHECK_EQUAL(Run(&supervisor, "say on").out, "on");
}

TEST(nobody_waits_for_a_worker_for_ever) {
  DispatcherSettings settings = Settings();
  settings.queue_seconds = 0.2;
  settings.num_workers = 1;
  Supervisor supervisor(std::move(settings));
  while (supervisor.mailbox().TakeResults().empty()) usleep(1000);  // until it is ready
  const std::uint64_t first = Submit(&supervisor, "sleep 1");
  CHECK_EQUAL(StatusOf(Run(&supervisor, "say late")), "queue_timeout");
  CHECK_EQUAL(StatusOf(Wait(&supervisor, first)), "ok");
}

TEST(a_killed_zygote_is_replaced_and_what_can_be_repeated_is) {
  Supervisor supervisor(Settings());
  const std::uint64_t session = Post(&supervisor, Want::kOpenSession);
  Run(&supervisor, "remember 1", session);
  const std::uint64_t under_way = Submit(&supervisor, "sleep 0.3");
  usleep(100'000);
  const pid_t zygote = Zygote();
  kill(zygote, SIGKILL);
  while (Zygote() == zygote) usleep(1000);
  CHECK_EQUAL(StatusOf(Wait(&supervisor, under_way)), "ok");
  CHECK_EQUAL(StatusOf(Run(&supervisor, "recall", session)), "sandbox_error");
}

TEST(a_zygote_that_cannot_start_is_an_answer_to_all) {
  Supervisor refused(Settings("refuse"));
  CHECK_EQUAL(StatusOf(Run(&refused, "say x")),
              "failed: the sandbox process cannot start: no reason at all");
  Supervisor dying(Settings("die"));
  CHECK_EQUAL(StatusOf(Run(&dying, "say x")),
              "failed: the sandbox process ended before it was ready: it said nothing");
}

TEST(a_worn_zygote_is_replaced_without_a_call_noticing) {
  DispatcherSettings settings = Settings();
  settings.forks_per_zygote = 10;
  Supervisor supervisor(std::move(settings));
  const std::uint64_t session = Post(&supervisor, Want::kOpenSession);
  Run(&supervisor, "remember 7", session);
  const pid_t first = Zygote();
  bool was_replaced = false;
  for (int i = 0; i < 4000 && !was_replaced; ++i) {
    CHECK_EQUAL(Run(&supervisor, "say x").out, "x");
    usleep(1000);
    was_replaced = Zygote() != first;
  }
  CHECK(was_replaced);
  CHECK_EQUAL(Run(&supervisor, "recall", session).verdict.value.value(), "7");
}

TEST(modules_choose_the_zygote) {
  DispatcherSettings settings = Settings();
  settings.kinds.push_back(settings.kinds.front());
  settings.kinds.back().settings.setup = "loaded";
  settings.kinds.back().modules = {"heavy"};
  Supervisor supervisor(std::move(settings));
  Run(&supervisor, "say light");
  const int before = NumDescriptors();
  CHECK_EQUAL(Run(&supervisor, "say heavy").out, "heavy");
  CHECK(NumDescriptors() > before);
}

TEST(closing_answers_what_is_under_way_and_leaves_nothing_open) {
  const int before = NumDescriptors();
  {
    Supervisor supervisor(Settings());
    const std::uint64_t number = Submit(&supervisor, "sleep 100");
    usleep(50'000);
    supervisor.Close();
    CHECK_EQUAL(StatusOf(Wait(&supervisor, number)), "failed: the sandbox is closed");
    supervisor.Close();
  }
  CHECK_EQUAL(NumDescriptors(), before);
}

TEST(many_callers_get_their_own_answers) {
  Supervisor supervisor(Settings());
  std::vector<std::thread> callers;
  std::atomic<int> num_right{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&supervisor, &num_right, caller] {
      for (int i = 0; i < 50; ++i) {
        const std::string text = std::to_string(caller) + "/" + std::to_string(i);
        const std::uint64_t number = Submit(&supervisor, "say " + text);
        const auto result = supervisor.mailbox().Wait(number, kPatienceSeconds);
        if (result && result->out == text) ++num_right;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK_EQUAL(num_right.load(), 200);
}

TEST(children_that_send_nonsense_harm_nobody_but_themselves) {
  Supervisor supervisor(Settings());
  Bounds hasty = Usual();
  hasty.wall_seconds = 0.5;
  int num_refused = 0;
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t session = i % 2 == 0 ? 0 : Post(&supervisor, Want::kOpenSession);
    const std::uint64_t babble = Submit(&supervisor, "babble " + std::to_string(i), session, hasty);
    CHECK_EQUAL(Run(&supervisor, "say " + std::to_string(i)).out, std::to_string(i));
    const Result result = Wait(&supervisor, babble);
    CHECK(result.event == Event::kBlockEnded);
    CHECK(StatusOf(result) != "sandbox_error");
    num_refused += StatusOf(result) == "protocol_error";
  }
  CHECK(num_refused > 20);
  CHECK(num_refused < 200);
}

TEST(a_zygote_that_sends_nonsense_between_its_notices_is_survived) {
  Supervisor supervisor(Settings("babble"));
  Bounds hasty = Usual();
  hasty.wall_seconds = 2;
  int num_well = 0;
  for (int i = 0; i < 150; ++i) {
    const Result result = Run(&supervisor, "say x", 0, hasty);
    CHECK(result.event == Event::kBlockEnded);
    num_well += result.out == "x";
  }
  CHECK(num_well > 75);
}
