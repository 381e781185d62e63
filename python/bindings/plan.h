#pragma once

#include <pybind11/pybind11.h>

namespace cairn::python {

/// Adds what says before a run what it will need.
void add_plan(pybind11::module_& module);

} // namespace cairn::python
