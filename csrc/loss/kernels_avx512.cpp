// Compiled with -mavx512f -mavx512dq -mfma; called only after the processor was asked.
#if defined(__AVX512F__)
#define AGENTMATH_LANES 16
#endif
#include "loss/kernels_body.h"

namespace agentmath {

LossKernels Avx512LossKernels() { return kLossKernels; }

}  // namespace agentmath
