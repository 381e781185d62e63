#pragma once

#include <pybind11/pybind11.h>
#include <torch/optim/optimizer.h>

#include <memory>

namespace cairn::python {

/// An optimizer of Python's as one of libtorch's, which runs on the weights
/// that the engine gives it in place of the program's. `optimizer` has groups
/// with the program's parameters; they are exchanged in its first step.
std::shared_ptr<torch::optim::Optimizer> python_optimizer(
    const pybind11::object& optimizer);

} // namespace cairn::python
