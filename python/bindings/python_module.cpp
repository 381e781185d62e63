#include "python_module.h"

#include <cairn/base/error.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <utility>

namespace cairn::python {

namespace py = pybind11;

namespace {

/// Gives the mirror of a Python module its parameters, buffers and children.
void mirror(
    torch::nn::Module& to,
    const py::object& from,
    const std::string& path) {
  const auto entries = [&](const char* attribute) {
    return py::cast<py::dict>(from.attr(attribute));
  };
  for (const auto& [key, value] : entries("_parameters")) {
    if (value.is_none()) {
      continue;
    }
    const auto name = py::cast<std::string>(key);
    const auto tensor = py::cast<at::Tensor>(value);
    if (!tensor.is_leaf()) {
      throw UsageError(
          {.what = "a parameter that is computed from others cannot be trained",
           .where = path + name,
           .remedy = "remove the parametrisation, or make it a leaf"});
    }
    to.register_parameter(name, tensor, tensor.requires_grad());
  }
  for (const auto& [key, value] : entries("_buffers")) {
    if (!value.is_none()) {
      to.register_buffer(
          py::cast<std::string>(key),
          py::cast<at::Tensor>(value));
    }
  }
  for (const auto& [key, value] : entries("_modules")) {
    if (value.is_none()) {
      continue;
    }
    const auto name = py::cast<std::string>(key);
    auto child = std::make_shared<torch::nn::Module>(
        py::cast<std::string>(py::type::of(value).attr("__name__")));
    mirror(
        *child,
        py::reinterpret_borrow<py::object>(value),
        path + name + ".");
    to.register_module(name, std::move(child));
  }
}

} // namespace

PythonModule::PythonModule(const py::object& module, DividedParameters divided)
    : torch::nn::Module(
          py::cast<std::string>(py::type::of(module).attr("__name__"))),
      module_(module),
      divided_(std::move(divided)) {
  mirror(*this, module, "");
}

at::Tensor PythonModule::forward(const std::shared_ptr<PythonCall>& call) {
  const py::gil_scoped_acquire lock;
  const py::object result = (*module_)(
      *py::cast<py::tuple>(*call->arguments),
      **py::cast<py::dict>(*call->names));
  call->result = HeldObject(result);
  return {};
}

} // namespace cairn::python
