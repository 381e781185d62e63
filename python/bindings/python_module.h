#pragma once

#include "held_object.h"

#include <cairn/nn/parameter_slices.h>
#include <pybind11/pybind11.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

namespace cairn::python {

/// A call of a Python module on its way through the engine: what it is given,
/// and what it returns.
struct PythonCall {
  HeldObject arguments; ///< a tuple
  HeldObject names;     ///< a dict
  HeldObject result;
};

/// The parameters of a module that ranks divide among themselves, by name.
struct DividedParameters {
  std::vector<nn::ParameterSlice> slices{};
  std::vector<std::string> experts{};
};

/// A torch.nn.Module of Python for the engine: a tree with the same names and
/// the very tensors of the Python module, whose forward() calls Python.
class PythonModule : public torch::nn::Module, public nn::HoldsSlices {
 public:
  explicit PythonModule(const pybind11::object& module)
      : PythonModule(module, DividedParameters()) {}
  PythonModule(const pybind11::object& module, DividedParameters divided);

  /// Takes the interpreter's lock. The tensor that it returns is undefined: the
  /// result is the call's.
  at::Tensor forward(const std::shared_ptr<PythonCall>& call);
  /// The module of Python's.
  const pybind11::object& object() const { return *module_; }

  std::vector<nn::ParameterSlice> parameter_slices() const override {
    return divided_.slices;
  }
  std::vector<std::string> expert_parameters() const override {
    return divided_.experts;
  }

 private:
  HeldObject module_;
  DividedParameters divided_;
};

} // namespace cairn::python
