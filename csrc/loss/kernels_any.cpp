#include "loss/kernels_body.h"

namespace agentmath {

LossKernels AnyLossKernels() { return kLossKernels; }

}  // namespace agentmath
