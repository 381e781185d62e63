#include "pipeline.h"

#include "held_object.h"
#include "python_module.h"

#include <cairn/base/error.h>
#include <cairn/distributed/init_distributed.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::python {

namespace py = pybind11;

namespace {

using pipeline::LayerSpec;
using pipeline::Tensors;

/// Returns the argument for a layer or a loss in Python: one tensor, or a
/// tuple.
py::object argument_of(const Tensors& tensors) {
  if (tensors.size() == 1) {
    return py::cast(tensors.front());
  }
  py::tuple result(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    result[i] = py::cast(tensors[i]);
  }
  return result;
}

/// Returns the tensors that a layer or a loss has given: one tensor, or a tuple
/// or list of tensors.
Tensors tensors_of(const py::handle& value, const std::string& giver) {
  if (THPVariable_Check(value.ptr())) {
    return {py::cast<at::Tensor>(value)};
  }
  Tensors result;
  if (PyTuple_Check(value.ptr()) || PyList_Check(value.ptr())) {
    for (const py::handle& each : value) {
      if (!THPVariable_Check(each.ptr())) {
        result.clear();
        break;
      }
      result.push_back(py::cast<at::Tensor>(each));
    }
  }
  if (result.empty()) {
    throw UsageError(
        {.what = "a layer of a pipeline gives a tensor, or a tuple of tensors",
         .where = giver,
         .values = std::string(py::str(py::type::handle_of(value)))});
  }
  return result;
}

/// A layer as cairn.pipe describes it: an object with `kind`, `key`, `name`,
/// `exists`, `parameters`, and the functions `build()`, if it has parameters,
/// and `call(module, inputs)`.
LayerSpec spec_of(const py::object& layer) {
  const auto kind = py::cast<std::string>(layer.attr("kind"));
  const HeldObject call(layer.attr("call"));
  const py::object build = layer.attr("build");
  if (build.is_none()) {
    LayerSpec spec([call, kind](const Tensors& inputs) {
      const py::gil_scoped_acquire lock;
      return tensors_of((*call)(py::none(), argument_of(inputs)), kind);
    });
    spec.type = kind;
    return spec;
  }
  const auto builder = [build = HeldObject(build)] {
    const py::gil_scoped_acquire lock;
    return std::make_shared<PythonModule>((*build)());
  };
  const auto forward = [call,
                        kind](PythonModule& module, const Tensors& inputs) {
    const py::gil_scoped_acquire lock;
    return tensors_of((*call)(module.object(), argument_of(inputs)), kind);
  };
  const auto key = py::cast<std::string>(layer.attr("key"));
  LayerSpec spec = key.empty() ? LayerSpec::built_by(builder, forward)
                               : LayerSpec::tied(key, builder, forward);
  spec.type = kind;
  spec.exists = py::cast<bool>(layer.attr("exists"));
  spec.parameters =
      py::cast<std::optional<std::int64_t>>(layer.attr("parameters"));
  return spec;
}

pipeline::Loss loss_of(const py::object& function) {
  if (function.is_none()) {
    return {};
  }
  return {[function = HeldObject(
               function)](const Tensors& outputs, const Tensors& labels) {
    const py::gil_scoped_acquire lock;
    return tensors_of(
        (*function)(argument_of(outputs), argument_of(labels)),
        "loss_fn");
  }};
}

PythonPipeline make_pipeline(
    const distributed::World& world,
    int stages,
    const py::list& layers,
    const py::object& loss,
    const std::string& partition,
    std::int64_t checkpoint_interval,
    const std::optional<std::uint64_t>& seed) {
  std::vector<LayerSpec> specs;
  for (const py::handle& layer : layers) {
    specs.push_back(spec_of(py::reinterpret_borrow<py::object>(layer)));
  }
  pipeline::PipelineModuleOptions options{
      .stages = stages,
      .partition = pipeline::PartitionMethod::parse(partition),
      .loss = loss_of(loss),
      .activation_checkpoint_interval = checkpoint_interval,
      .seed = seed};
  const py::gil_scoped_release unlocked;
  distributed::ProcessMesh mesh(
      world.group(),
      distributed::MeshShape::infer(world.size(), {.pipeline = stages}));
  options.stage = mesh.coordinate(distributed::Axis::pipeline);
  auto module = std::make_shared<pipeline::PipelineModule>(
      std::move(specs),
      std::move(options));
  return {std::move(mesh), std::move(module)};
}

} // namespace

pipeline::NextMicroBatch micro_batches_of(const py::object& next) {
  return [next = HeldObject(next)]() -> std::optional<pipeline::MicroBatch> {
    const py::gil_scoped_acquire lock;
    const py::object given = (*next)();
    if (given.is_none()) {
      return std::nullopt;
    }
    const auto both = py::cast<py::tuple>(given);
    return pipeline::MicroBatch{
        .inputs = py::cast<Tensors>(both[0]),
        .labels = py::cast<Tensors>(both[1])};
  };
}

void add_pipeline(py::module_& module) {
  using distributed::Axis;
  py::class_<PythonPipeline>(module, "PipelineModule")
      .def(
          py::init(&make_pipeline),
          py::arg("world"),
          py::arg("stages"),
          py::arg("layers"),
          py::arg("loss"),
          py::arg("partition"),
          py::arg("checkpoint_interval"),
          py::arg("seed"))
      .def_property_readonly(
          "cuts",
          [](const PythonPipeline& self) { return self.module->cuts(); })
      .def_property_readonly(
          "stage",
          [](const PythonPipeline& self) { return self.module->stage(); })
      .def_property_readonly(
          "stages",
          [](const PythonPipeline& self) { return self.module->stages(); })
      .def_property_readonly(
          "copied_keys", // of layers that belong to another stage
          [](const PythonPipeline& self) {
            std::vector<std::string> keys;
            for (const auto& tie : self.module->ties()) {
              if (tie.module && tie.owner() != self.module->stage()) {
                keys.push_back(tie.key);
              }
            }
            return keys;
          })
      .def_property_readonly(
          "data_rank",
          [](const PythonPipeline& self) {
            return self.mesh.coordinate(Axis::data);
          })
      .def_property_readonly("data_size", [](const PythonPipeline& self) {
        return self.mesh.along(Axis::data).size();
      });
}

} // namespace cairn::python
