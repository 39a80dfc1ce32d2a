// One table of kernels for each instruction set. kernels_body.h is compiled twice, and
// operators.cpp chooses once.
#pragma once

#include <cstdint>

#include "decode/operators.h"

namespace agentmath {

struct DecodeKernels {
  void (*rms_norm)(const float* x, const float* weight, float eps, std::int64_t tokens,
                   std::int64_t width, float* out);
  void (*norm_and_rotate)(const HeadsShape& shape, const float* weight, float eps, const float* cos,
                          const float* sin, float* heads);
  void (*swiglu)(const float* up, std::int64_t count, float* gate);
  // Rows begin to end - 1; scores has room for the longest context and 8 more. Null for head sizes
  // it does not know.
  void (*attend)(const OneTokenShape& shape, const float* query, const float* keys,
                 const float* values, const std::int64_t* contexts, float* out, std::int64_t begin,
                 std::int64_t end, float* scores);
};

DecodeKernels AnyKernels();
DecodeKernels Avx2Kernels();

}  // namespace agentmath
