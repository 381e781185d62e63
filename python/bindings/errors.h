#pragma once

#include <pybind11/pybind11.h>

namespace cairn::python {

/// Adds the classes of exceptions: Cairn's names, with Python's own that
/// callers would catch as bases.
void add_errors(pybind11::module_& module);

} // namespace cairn::python
