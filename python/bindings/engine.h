#pragma once

#include <pybind11/pybind11.h>

namespace cairn::python {

/// Adds the engine and what belongs to it: initialize(), gathered parameters,
/// the scope in which parameters are born sliced.
void add_engine(pybind11::module_& module);

} // namespace cairn::python
