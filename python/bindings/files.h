#pragma once

#include <pybind11/pybind11.h>

namespace cairn::python {

/// Adds what reads files: configurations, checkpoints of all formats, and the
/// schedules that a configuration names.
void add_files(pybind11::module_& module);

} // namespace cairn::python
