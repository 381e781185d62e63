#pragma once

#include "held_object.h"

#include <pybind11/pybind11.h>
#include <torch/nn/module.h>

#include <memory>

namespace cairn::python {

/// A call of a Python module on its way through the engine: what it is given,
/// and what it returns.
struct PythonCall {
  HeldObject arguments; ///< a tuple
  HeldObject names;     ///< a dict
  HeldObject result;
};

/// A torch.nn.Module of Python for the engine: a tree with the same names and
/// the very tensors of the Python module, whose forward() calls Python.
class PythonModule : public torch::nn::Module {
 public:
  explicit PythonModule(const pybind11::object& module);

  /// Takes the interpreter's lock. The tensor that it returns is undefined: the
  /// result is the call's.
  at::Tensor forward(const std::shared_ptr<PythonCall>& call);
  /// The module of Python's.
  const pybind11::object& object() const { return *module_; }

 private:
  HeldObject module_;
};

} // namespace cairn::python
