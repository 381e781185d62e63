#pragma once

#include <pybind11/pybind11.h>

namespace cairn::python {

/// Adds World, and init_distributed() which makes it.
void add_distributed(pybind11::module_& module);

} // namespace cairn::python
