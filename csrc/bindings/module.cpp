// The extension module agentmath._C: one call per room, nothing else.
#include <nanobind/nanobind.h>

#include "bindings/rooms.h"

NB_MODULE(_C, m) {
  m.doc() = "Compiled core of agentmath.";
  agentmath::BindBalancer(m);
  agentmath::BindDecode(m);
  agentmath::BindLoss(m);
  agentmath::BindSandbox(m);
  agentmath::BindScheduler(m);
  agentmath::BindSimulator(m);
}
