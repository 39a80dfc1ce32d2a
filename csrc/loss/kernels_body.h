// The arithmetic. Everything lies in an unnamed namespace: each including file gets its own copy
// for its instruction set.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/vector.h"
#include "loss/kernels.h"

namespace agentmath {
namespace {

// Elements that stay in the nearest cache while they are read twice, and whose sum is safe in
// float.
constexpr std::int64_t kBlock = 2048;

inline float BlockPeak(const float* x, std::int64_t count) {
  Floats best = All(-std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats v = Load(x + i);
    best = best < v ? v : best;
  }
  float peak = -std::numeric_limits<float>::infinity();
  for (int lane = 0; lane < kLanes; ++lane) peak = std::max(peak, best[lane]);
  for (; i < count; ++i) peak = std::max(peak, x[i]);
  return peak;
}

// A vector of what is left behind the last whole one, padded by `filler`.
inline Floats Tail(const float* x, std::int64_t count, float filler) {
  float held[kLanes];
  std::fill(held, held + kLanes, filler);
  std::copy(x, x + count, held);
  return Load(held);
}

struct Pair {
  float sum, weighted;
};

inline Pair BlockSums(const float* x, std::int64_t count, float scale, float peak) {
  Floats sum = All(0.0f), weighted = All(0.0f);
  const Floats times = All(scale), shift = All(peak), lowest = All(-1e30f);
  const auto add = [&](const Floats& logits) {
    Floats d = logits * times - shift;
    d = d < lowest ? lowest : d;  // keeps 0 * -inf out of the weighted sum; a NaN stays one
    const Floats e = ExpNegative(d);
    sum += e;
    weighted += e * d;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) add(Load(x + i));
  if (i < count) add(Tail(x + i, count - i, -std::numeric_limits<float>::infinity()));
  return {Sum(sum), Sum(weighted)};
}

RowSums ReadBody(const float* logits, std::int64_t vocab, float scale) {
  RowSums row{-std::numeric_limits<float>::infinity(), 0.0, 0.0};
  for (std::int64_t start = 0; start < vocab; start += kBlock) {
    const float* x = logits + start;
    const std::int64_t count = std::min(kBlock, vocab - start);
    const float peak = BlockPeak(x, count) * scale;
    if (peak > row.peak) {
      if (row.sum > 0.0) {
        const double down = static_cast<double>(row.peak) - peak, factor = std::exp(down);
        row.weighted = (row.weighted + down * row.sum) * factor;
        row.sum *= factor;
      }
      row.peak = peak;
    }
    if (row.peak == -std::numeric_limits<float>::infinity()) {
      // So far all -inf, or NaN, which no comparison finds.
      for (std::int64_t i = 0; i < count; ++i) row.sum += x[i] == x[i] ? 0.0 : x[i];
      continue;
    }
    const Pair sums = BlockSums(x, count, scale, row.peak);
    row.sum += sums.sum;
    row.weighted += sums.weighted;
  }
  return row;
}

void WriteBody(float* logits, std::int64_t vocab, const RowGradient& g) {
  const Floats scale = All(g.scale), peak = All(g.peak), log_sum = All(g.log_sum);
  const Floats slope = All(g.slope), offset = All(g.offset);
  const Floats lowest = All(-1e30f), zero = All(0.0f);
  const auto gradient = [&](const Floats& x) {
    Floats logp = (x * scale - peak) - log_sum;
    logp = logp < lowest ? lowest : logp;
    logp = logp < zero ? logp : zero;  // it is at most 0, whatever rounding says
    return ExpNegative(logp) * (slope * logp + offset);
  };
  std::int64_t i = 0;
  for (; i + kLanes <= vocab; i += kLanes) Store(logits + i, gradient(Load(logits + i)));
  if (i < vocab) {
    float held[kLanes];
    Store(held, gradient(Tail(logits + i, vocab - i, 0.0f)));
    std::copy(held, held + (vocab - i), logits + i);
  }
}

constexpr LossKernels kLossKernels = {&ReadBody, &WriteBody};

}  // namespace
}  // namespace agentmath
