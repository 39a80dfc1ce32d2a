// Compiled with -mavx2 -mfma; called only after the processor was asked.
#include "loss/kernels_body.h"

namespace agentmath {

LossKernels Avx2LossKernels() { return kLossKernels; }

}  // namespace agentmath
