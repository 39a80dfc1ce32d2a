#include "decode/kernels_body.h"

namespace agentmath {

DecodeKernels AnyKernels() { return kKernels; }

}  // namespace agentmath
