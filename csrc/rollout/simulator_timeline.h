// What engines did over time, in a bounded number of equal bins; fewer where there are many
// engines.
#pragma once

#include <cstdint>
#include <vector>

#include "rollout/simulator_engine.h"

namespace agentmath::rollout {

class Timeline {
 public:
  explicit Timeline(std::int64_t num_engines);

  // Forgets everything; bins begin at `now`.
  void Restart(std::int64_t now);
  // Bins double their width whenever time runs past the last one.
  void Add(std::int64_t engine, const Stretch& stretch);

  std::int64_t bin_ns() const { return bin_ns_; }
  std::int64_t begin_ns() const { return begin_ns_; }
  std::int64_t end_ns() const { return end_ns_; }
  std::int64_t num_bins() const { return num_bins_; }
  // Row by engine, num_bins() values each: nanoseconds of prefill, of decoding, and sequences in
  // the batch times nanoseconds.
  const std::vector<double>& prefill() const { return prefill_; }
  const std::vector<double>& decode() const { return decode_; }
  const std::vector<double>& batch() const { return batch_; }

 private:
  void Widen();

  std::int64_t num_engines_;
  std::int64_t num_bins_ = 2048;
  std::int64_t bin_ns_ = 0;
  std::int64_t begin_ns_ = 0;
  std::int64_t end_ns_ = 0;
  std::vector<double> prefill_, decode_, batch_;
};

}  // namespace agentmath::rollout
