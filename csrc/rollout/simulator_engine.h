// One inference engine as arithmetic: continuous batching with a KV cache, no tokens.
//
// A decode step of B sequences with C context tokens in all takes step + B * per_sequence +
// C * per_context_token seconds and gives each sequence one token. A missed prompt token takes
// prefill seconds, during which nobody decodes (chunked prefill as a stall). Steps between two
// events are summed in closed form, so a span of any length is one event.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <unordered_map>
#include <vector>

namespace agentmath::rollout {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

struct EngineSettings {
  double step_seconds = 0.008;
  double step_seconds_per_sequence = 20e-6;
  double step_seconds_per_context_token = 45e-9;
  double prefill_seconds_per_token = 40e-6;
  std::int64_t kv_tokens = 340000;
  std::int64_t max_batch = 0;       // 0: as many as the KV cache holds
  std::int64_t report_tokens = 16;  // progress is told each so many decode steps
};

// What one request asks for: context_tokens are there, tokens are to be sampled.
struct Pass {
  std::int64_t session = 0;
  std::int64_t group = 0;
  std::int64_t context_tokens = 0;
  std::int64_t tokens = 0;
};

// Tokens sampled since the last report of this session.
struct PassReport {
  std::int64_t session = 0;
  std::int64_t tokens = 0;
  bool is_done = false;
};

enum class Activity { kPrefill, kDecode };

// A stretch in which the batch did not change.
struct Stretch {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  Activity activity = Activity::kDecode;
  std::int64_t batch = 0;
  std::int64_t context_tokens = 0;  // at its beginning
};

struct EngineCounts {
  std::int64_t decoded_tokens = 0;
  std::int64_t wanted_tokens = 0;  // context of all passes taken into the batch
  std::int64_t missed_tokens = 0;  // of these, what had to be computed
  std::int64_t preemptions = 0;
  std::int64_t evictions = 0;

  EngineCounts& operator+=(const EngineCounts& other);
  EngineCounts operator-(const EngineCounts& other) const;
};

class ModelledEngine {
 public:
  ModelledEngine(const EngineSettings& settings, std::int64_t prompt_tokens);

  // Queue a pass; a session has one at most. Throws Error where the KV cache can never hold it.
  void Submit(std::int64_t now, const Pass& pass);
  // When Advance has something to do; kNever when nothing runs.
  std::int64_t next_ns() const { return next_ns_; }
  // Goes on at next_ns(): appends reports, and to stretches what the engine has done.
  void Advance(std::int64_t now, std::vector<PassReport>* reports, std::vector<Stretch>* stretches);
  // Stop after the last whole step; with keeps_kv false every context must be computed again.
  void Pause(std::int64_t now, bool keeps_kv, std::vector<PassReport>* reports,
             std::vector<Stretch>* stretches);
  void Resume(std::int64_t now);
  // Ends a pass: at once where it waits, else with the token that is being sampled. Reported as
  // done; nothing happens where the session has none.
  void Abort(std::int64_t now, std::int64_t session, std::vector<PassReport>* reports);

  bool is_idle() const { return running_.empty() && waiting_.empty(); }
  std::int64_t running_tokens() const { return running_tokens_; }
  std::int64_t cached_tokens() const { return idle_tokens_; }
  std::int64_t num_running() const { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t num_waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  const EngineCounts& counts() const { return counts_; }

 private:
  enum class Phase { kIdle, kBoundary, kPrefill, kDecode, kPaused };
  struct Running {
    Pass pass;  // as it was when it joined
    std::int64_t joined_step = 0;
    std::int64_t reported_step = 0;
  };
  struct Idle {
    std::int64_t tokens = 0;
    std::int64_t group = 0;
    std::list<std::int64_t>::iterator place;
  };

  std::int64_t StepsNs(std::int64_t steps) const;
  std::int64_t StepsWithin(std::int64_t ns) const;
  void Finish(std::int64_t now, std::int64_t steps, std::vector<PassReport>* reports,
              std::vector<Stretch>* stretches);
  void CutAt(std::int64_t now);
  void Report(Running* running, bool is_done, std::vector<PassReport>* reports);
  void Begin(std::int64_t now, std::vector<PassReport>* reports);
  std::int64_t Admit();
  std::int64_t Join(const Pass& pass);
  void PutBack(std::size_t index, std::vector<PassReport>* reports);
  void Leave(const Running& running);
  void KeepIdle(const Pass& pass, std::int64_t tokens);
  void DropIdle(std::unordered_map<std::int64_t, Idle>::iterator found);
  void EvictTo(std::int64_t tokens);

  EngineSettings settings_;
  std::int64_t prompt_tokens_;
  Phase phase_ = Phase::kIdle;
  std::int64_t next_ns_ = kNever;
  std::int64_t begin_ns_ = 0;    // of the current phase
  std::int64_t span_steps_ = 0;  // of the current decode span
  std::int64_t steps_ = 0;       // decode steps made so far
  std::int64_t unreported_ = 0;  // steps since the last report to all
  std::int64_t running_tokens_ = 0;
  std::int64_t idle_tokens_ = 0;
  std::vector<Running> running_;  // in the order in which they joined
  std::deque<Pass> waiting_;
  std::list<std::int64_t> idle_order_;  // least recently used first
  std::unordered_map<std::int64_t, Idle> idle_;
  std::unordered_map<std::int64_t, std::int64_t> group_sessions_;  // with their prompt in the cache
  EngineCounts counts_;
};

}  // namespace agentmath::rollout
