#include "rollout/simulator_timeline.h"

#include <algorithm>

namespace agentmath::rollout {
namespace {

constexpr std::int64_t kFewestBins = 64;
constexpr std::int64_t kMostCells = 1 << 18;

}  // namespace

Timeline::Timeline(std::int64_t num_engines) : num_engines_(num_engines) {
  while (num_bins_ > kFewestBins && num_bins_ * num_engines > kMostCells) num_bins_ /= 2;
  Restart(0);
}

void Timeline::Restart(std::int64_t now) {
  bin_ns_ = 1'000'000;
  begin_ns_ = end_ns_ = now;
  for (std::vector<double>* rows : {&prefill_, &decode_, &batch_})
    rows->assign(static_cast<std::size_t>(num_engines_) * num_bins_, 0.0);
}

void Timeline::Add(std::int64_t engine, const Stretch& stretch) {
  while (stretch.end_ns - begin_ns_ > bin_ns_ * num_bins_) Widen();
  end_ns_ = std::max(end_ns_, stretch.end_ns);
  std::vector<double>& busy = stretch.activity == Activity::kPrefill ? prefill_ : decode_;
  for (std::int64_t at = std::max(stretch.begin_ns, begin_ns_); at < stretch.end_ns;) {
    const std::int64_t bin = (at - begin_ns_) / bin_ns_;
    const std::int64_t until = std::min(stretch.end_ns, begin_ns_ + (bin + 1) * bin_ns_);
    const std::size_t cell = static_cast<std::size_t>(engine * num_bins_ + bin);
    busy[cell] += static_cast<double>(until - at);
    batch_[cell] += static_cast<double>((until - at) * stretch.batch);
    at = until;
  }
}

void Timeline::Widen() {
  bin_ns_ *= 2;
  for (std::vector<double>* rows : {&prefill_, &decode_, &batch_}) {
    for (std::int64_t engine = 0; engine < num_engines_; ++engine) {
      double* row = rows->data() + engine * num_bins_;
      for (std::int64_t bin = 0; bin < num_bins_ / 2; ++bin)
        row[bin] = row[2 * bin] + row[2 * bin + 1];
      std::fill(row + num_bins_ / 2, row + num_bins_, 0.0);
    }
  }
}

}  // namespace agentmath::rollout
