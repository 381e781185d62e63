#pragma once

#include <pybind11/pybind11.h>

namespace cairn::python {

/// Adds tokenizers, and the datasets of .bin/.idx files.
void add_text_data(pybind11::module_& module);

} // namespace cairn::python
