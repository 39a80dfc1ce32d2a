// Decides what runs when and where: the queue, the sessions, and which zygote serves whom.
//
// Lives on one thread and never blocks but in its reactor. It forks nothing: the zygotes do
// (zygote.h), and those never see code or output.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sandbox/mailbox.h"
#include "sandbox/nursery.h"
#include "sandbox/reactor.h"

namespace agentmath::sandbox {

// A sort of zygote. The first serves all code that no other is meant for.
struct ZygoteKind {
  NurserySettings settings;
  // Modules that it has loaded: it is started by the first code that names one of them.
  std::vector<std::string> modules;
};

struct DispatcherSettings {
  std::vector<ZygoteKind> kinds;
  std::size_t num_workers = 1;             // executions at the same time
  double queue_seconds = 0;                // how long one may wait for a worker
  double idle_cpu_seconds = 0;             // CPU time that a session may use between its blocks
  std::uint64_t forks_per_zygote = 20000;  // then a new one takes over
};

constexpr int kMaxAttempts = 2;

class Dispatcher : private Ends {
 public:
  // Starts the first zygote. Throws Error.
  Dispatcher(DispatcherSettings settings, Mailbox* mailbox);

  // Serves the mailbox until it is ordered to end and all zygotes are gone. Throws Error.
  void Run();

  // Answers everything with `why`, now and for ever.
  void Fail(const std::string& why);

 private:
  struct Session {
    Nursery* nursery = nullptr;
    Child* child = nullptr;
    bool is_busy = false;
    bool has_state = false;            // a block has ended: what followed cannot be repeated
    std::optional<std::string> ended;  // why its process is gone
    bool is_our_fault = false;
    std::deque<std::uint64_t> waiting;   // jobs
    std::vector<std::uint64_t> closers;  // requests that wait for the process to be gone
  };

  struct Kind {
    ZygoteKind sort;
    std::unique_ptr<Nursery> current, successor;
    std::vector<std::unique_ptr<Nursery>> retired;
    std::deque<std::uint64_t> waiting;  // jobs for which no zygote is ready yet
    int num_stillborn = 0;              // zygotes in a row that ended before they were ready
  };

  void OnOrders();
  void Accept(Order order);
  void Cancel(std::uint64_t number);
  void Close(std::uint64_t number, std::uint64_t session);
  void End();
  void SayClosed(std::uint64_t number);
  void SayFailed(std::uint64_t number);

  void Admit();
  void Assign(Job* job);
  void AssignToSession(Job* job);
  void Start(Job* job, Nursery* nursery, Session* session);
  void Answer(Job* job, const Verdict& verdict, double cpu_seconds = 0,
              std::uint64_t peak_memory_bytes = 0);

  bool CanRepeat(const Job& job, const Verdict& verdict) const;

  Kind& KindFor(const Job& job);
  std::unique_ptr<Nursery> MakeZygote(const Kind& kind);
  void Recycle();
  void Sweep();
  void TakeBack(Nursery* nursery);
  std::unique_ptr<Nursery>* Find(const Nursery* nursery, Kind** kind);
  std::vector<Nursery*> AllNurseries() const;

  void ZygoteAnswered(Nursery* nursery, bool is_ready, const std::string& text) override;
  void BlockEnded(Child* child, const Verdict& verdict, double cpu_seconds,
                  std::uint64_t peak_memory_bytes) override;
  void ChildGone(Child* child, const std::string& why) override;
  void ZygoteGone(Nursery* nursery, const std::string& last_words) override;

  DispatcherSettings settings_;
  Mailbox* mailbox_;
  Reactor reactor_;
  std::vector<Kind> kinds_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Job>> jobs_;
  std::unordered_map<std::uint64_t, Session> sessions_;
  std::deque<std::uint64_t> queue_;
  std::size_t num_running_ = 0;
  bool has_greeted_ = false;
  bool is_ending_ = false;
  std::string failure_;
};

// True when `code` holds one of `names` as a word of its own.
bool Mentions(const std::string& code, const std::vector<std::string>& names);

}  // namespace agentmath::sandbox
