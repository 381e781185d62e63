#pragma once

#include <pybind11/pybind11.h>

namespace cairn::python {

/// Adds Mesh: the groups of ranks that divide a model.
void add_mesh(pybind11::module_& module);

} // namespace cairn::python
