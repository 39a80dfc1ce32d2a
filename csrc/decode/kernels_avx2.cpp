// Compiled with -mavx2 -mfma; called only after the processor was asked.
#include "decode/kernels_body.h"

namespace agentmath {

DecodeKernels Avx2Kernels() { return kKernels; }

}  // namespace agentmath
