#include "python_optimizer.h"

#include "held_object.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn::python {

namespace py = pybind11;

namespace {

using torch::optim::OptimizerParamGroup;

class Options final : public torch::optim::OptimizerCloneableOptions<Options> {
 public:
  explicit Options(double rate) : lr_(rate) {}
  double get_lr() const override { return lr_; }
  void set_lr(const double rate) override { lr_ = rate; }

 private:
  double lr_;
};

/// True for a number, also in a tensor, such as a count of steps.
bool is_number(const py::handle& value) {
  return PyBool_Check(value.ptr()) || PyLong_Check(value.ptr()) ||
      PyFloat_Check(value.ptr()) ||
      (THPVariable_Check(value.ptr()) &&
       py::cast<at::Tensor>(value).dim() == 0);
}

c10::IValue to_number(const py::handle& value) {
  if (THPVariable_Check(value.ptr())) {
    return py::cast<at::Tensor>(value).item<double>();
  }
  if (PyBool_Check(value.ptr())) {
    return py::cast<bool>(value);
  }
  if (PyLong_Check(value.ptr())) {
    return py::cast<std::int64_t>(value);
  }
  return py::cast<double>(value);
}

/// A number as Python had it before.
py::object from_number(const c10::Scalar& number, const py::handle& before) {
  if (THPVariable_Check(before.ptr())) {
    return py::cast(at::full_like(py::cast<at::Tensor>(before), number));
  }
  if (PyBool_Check(before.ptr())) {
    return py::bool_(number.toDouble() != 0);
  }
  if (PyLong_Check(before.ptr())) {
    return py::int_(static_cast<std::int64_t>(number.toDouble()));
  }
  return py::float_(number.toDouble());
}

/// The dict that an optimizer of Python's keeps for a parameter.
class State final : public torch::optim::OptimizerCloneableParamState<State> {
 public:
  explicit State(HeldObject values) : values_(std::move(values)) {}

  void serialize(torch::serialize::OutputArchive& archive) const override {
    const py::gil_scoped_acquire lock;
    for (const auto& [key, value] : py::cast<py::dict>(*values_)) {
      const auto name = py::cast<std::string>(key);
      if (is_number(value)) {
        archive.write(name, to_number(value));
      } else if (THPVariable_Check(value.ptr())) {
        archive.write(name, c10::IValue(py::cast<at::Tensor>(value)));
      }
    }
  }
  void serialize(torch::serialize::InputArchive& archive) override {
    const py::gil_scoped_acquire lock;
    auto values = py::cast<py::dict>(*values_);
    for (const std::string& name : archive.keys()) {
      c10::IValue value;
      archive.read(name, value);
      values[name.c_str()] = value.isTensor()
          ? py::cast(value.toTensor())
          : from_number(value.toScalar(), values[name.c_str()]);
    }
  }

 private:
  HeldObject values_;
};

std::vector<OptimizerParamGroup> groups_of_python(const py::object& optimizer) {
  std::vector<OptimizerParamGroup> result;
  for (const py::handle& group :
       py::cast<py::list>(optimizer.attr("param_groups"))) {
    result.emplace_back(
        py::cast<std::vector<at::Tensor>>(group["params"]),
        std::make_unique<Options>(py::cast<double>(
            py::module_::import("builtins").attr("float")(group["lr"]))));
  }
  return result;
}

class PythonOptimizer final : public torch::optim::Optimizer {
 public:
  explicit PythonOptimizer(const py::object& optimizer)
      : Optimizer(groups_of_python(optimizer), std::make_unique<Options>(0.0)),
        optimizer_(optimizer) {}

  at::Tensor step(LossClosure) override {
    const py::gil_scoped_acquire lock;
    const py::object states = optimizer_->attr("state");
    if (state().empty()) { // the engine has forgotten them
      states.attr("clear")();
    }
    const auto groups = py::cast<py::list>(optimizer_->attr("param_groups"));
    for (std::size_t i = 0; i < param_groups().size(); ++i) {
      const py::object group = groups[i];
      if (!exchanged_) {
        group["params"] = py::cast(param_groups()[i].params());
      }
      group["lr"] = param_groups()[i].options().get_lr();
    }
    exchanged_ = true;
    optimizer_->attr("step")();
    for (const py::handle& group : groups) {
      for (const py::handle& parameter : group["params"]) {
        void* const key = py::cast<at::Tensor>(parameter).unsafeGetTensorImpl();
        if (state().count(key) == 0) {
          state()[key] = std::make_unique<State>(
              HeldObject(states.attr("__getitem__")(parameter)));
        }
      }
    }
    return {};
  }

 private:
  HeldObject optimizer_;
  bool exchanged_ = false;
};

} // namespace

std::shared_ptr<torch::optim::Optimizer> python_optimizer(
    const py::object& optimizer) {
  return std::make_shared<PythonOptimizer>(optimizer);
}

} // namespace cairn::python
