#pragma once

#include <cairn/engine/saving.h>
#include <pybind11/pybind11.h>

namespace cairn::python {

/// A dict of Python's as values for a checkpoint: None, bool, int, float, str,
/// bytes, tensors, lists, tuples and dicts of these. Throws UsageError for
/// anything else, with the path to it.
ClientState to_client_state(const pybind11::dict& values);
pybind11::dict from_client_state(const ClientState& state);

} // namespace cairn::python
