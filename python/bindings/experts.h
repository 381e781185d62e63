#pragma once

#include <pybind11/pybind11.h>

namespace cairn::python {

/// Adds route() and exchange(), with which experts of Python's get their
/// tokens.
void add_experts(pybind11::module_& module);

} // namespace cairn::python
