// One table of kernels for each instruction set. kernels_body.h is compiled for each of them, and
// rows.cpp chooses once.
#pragma once

#include <cstdint>

namespace agentmath {

// What stands in one row of logits.
struct RowSums {
  float peak;
  double sum;       // of e = exp(x - peak)
  double weighted;  // of e * (x - peak)
};

// Of one row's gradient, with log p = scale * logit - peak - log_sum.
struct RowGradient {
  float scale, peak, log_sum;
  float slope, offset;
};

struct LossKernels {
  RowSums (*read)(const float* logits, std::int64_t vocab, float scale);
  // logits[i] = p (slope * log p + offset).
  void (*write)(float* logits, std::int64_t vocab, const RowGradient& gradient);
};

LossKernels AnyLossKernels();
LossKernels Avx2LossKernels();
LossKernels Avx512LossKernels();

}  // namespace agentmath
