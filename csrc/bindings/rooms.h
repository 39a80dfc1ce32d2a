// One function per room that adds its part to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace agentmath {

void BindBalancer(nanobind::module_& m);
void BindDecode(nanobind::module_& m);
void BindLoss(nanobind::module_& m);
void BindSandbox(nanobind::module_& m);
void BindScheduler(nanobind::module_& m);
void BindSimulator(nanobind::module_& m);

}  // namespace agentmath
