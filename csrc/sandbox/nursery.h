// One zygote and all children it forked: starting blocks in them, watching time and output, and
// learning how each block and each child ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/descriptor.h"
#include "sandbox/child.h"
#include "sandbox/messages.h"
#include "sandbox/reactor.h"
#include "sandbox/verdict.h"

namespace agentmath::sandbox {

class Nursery;

constexpr double kZygoteStartSeconds = 120;
constexpr double kKillSeconds = 10;  // after which a zygote that cannot end a child is stuck itself

// Who is told how things end.
class Ends {
 public:
  virtual ~Ends() = default;

  // The zygote has answered: ready, with its description, or failed, with the reason.
  virtual void ZygoteAnswered(Nursery* nursery, bool is_ready, const std::string& text) = 0;

  // The block that child->job asked for is over; child->job is cleared afterwards.
  virtual void BlockEnded(Child* child, const Verdict& verdict, double cpu_seconds,
                          std::uint64_t peak_memory_bytes) = 0;

  // The process is dead and reaped.
  virtual void ChildGone(Child* child, const std::string& why) = 0;

  // No child can be started or reaped any more; those that lived are being ended by the kernel.
  virtual void ZygoteGone(Nursery* nursery, const std::string& last_words) = 0;
};

struct NurserySettings {
  std::vector<std::string> command;  // argv of the zygote; its descriptor 3 is the control socket
  std::vector<std::string> environment;  // "NAME=value"
  std::string setup;                     // the first message to it
  std::size_t num_parked = 0;            // children kept ready
  std::uint64_t memory_bytes = 0;        // limits of those, which are set at birth
  std::uint64_t file_bytes = 0;
  double cpu_seconds = 0;
};

class Nursery {
 public:
  // Starts the zygote. Throws Error.
  Nursery(Reactor* reactor, NurserySettings settings, Ends* ends);

  // Kills the zygote if it lives; its children die with it.
  ~Nursery();

  bool is_ready() const { return is_ready_; }
  pid_t zygote() const { return zygote_; }
  std::uint64_t num_forked() const { return num_started_; }
  std::size_t num_busy() const { return children_.size() - parked_.size(); }

  // A parked child if its limits are the job's, else a new one. Throws Error when out of
  // descriptors.
  Child* Take(const Job& job);

  // Hands over a block; its wall clock starts now.
  void Begin(Child* child, Job* job);

  // Ends a child; `status` becomes that of what it runs. The first reason stands.
  void Kill(Child* child, Status status, const std::string& why);

  // Makes no children ahead any more and ends those that wait.
  void Retire();

  // Asks the zygote to end everything; ZygoteGone follows.
  void HangUp();

  void KillZygote();

 private:
  void Refill();
  Child* Spawn(std::uint64_t memory_bytes, std::uint64_t file_bytes);
  void AskZygote(Ask ask, const Child& child, std::uint64_t memory_bytes = 0,
                 std::uint64_t file_bytes = 0, std::vector<Descriptor> fds = {});
  void FlushRequests();
  void OnZygote(std::uint32_t events);
  void OnNotice(const Notice& notice);
  void Answer(std::string_view message);
  void WatchOutput(Child* child, const Descriptor& fd, Reactor::Watch* watch);
  void OnCpuCheck(Child* child);
  void OnChannel(Child* child, std::uint32_t events);
  Received TakeReports(Child* child);
  void FinishLive(Child* child);
  void KillForOutput(Child* child);
  void EndBlock(Child* child, const Verdict& verdict, double cpu_seconds,
                std::uint64_t peak_memory_bytes);
  void StopWatching(Child* child);  // the running block's time and output
  void LetGo(Child* child);         // all of it, before it is destroyed
  void Bury(Child* child, const Notice& notice);
  void Discard(Child* child, const std::string& why);
  void BuryZygote();
  std::string LastWords() const;

  struct Unsent {
    Request request;
    std::vector<Descriptor> fds;  // the child's ends, closed here once they are on their way
  };

  Reactor* reactor_;
  NurserySettings settings_;
  Ends* ends_;
  Descriptor control_, errors_;
  Reactor::Watch control_watch_ = Reactor::kNone;
  Reactor::Timer start_timer_;
  pid_t zygote_ = 0;
  bool is_ready_ = false;
  bool is_retired_ = false;
  bool has_answered_ = false;
  std::string scratch_folder_;  // to be removed when the zygote could not
  std::unordered_map<std::uint32_t, std::unique_ptr<Child>> children_;
  std::deque<Child*> parked_;
  std::deque<Unsent> unsent_;
  std::uint64_t cpu_allowance_;
  std::uint32_t num_started_ = 0;
  double num_cores_;
};

}  // namespace agentmath::sandbox
