#include "distributed.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/distributed/init_distributed.h>
#include <pybind11/stl.h>

#include <string>

namespace cairn::python {

namespace py = pybind11;

namespace {

distributed::BackendChoice backend_of(const std::string& name) {
  if (name.empty()) {
    return distributed::BackendChoice::automatic;
  }
  if (name == "gloo") {
    return distributed::BackendChoice::gloo;
  }
  if (name == "nccl") {
    return distributed::BackendChoice::nccl;
  }
  throw ConfigError(
      {.what = "unknown backend \"" + name + "\"",
       .where = "init_distributed, dist_backend",
       .remedy = "use \"gloo\", \"nccl\", or nothing to let Cairn choose"});
}

} // namespace

void add_distributed(py::module_& module) {
  using distributed::World;
  py::class_<World>(module, "World", "This process's place in the job.")
      .def_property_readonly("rank", &World::rank)
      .def_property_readonly("size", &World::size)
      .def_property_readonly("local_rank", &World::local_rank)
      .def_property_readonly("device_name", &World::device_name)
      .def_property_readonly("store_address", &World::store_address)
      .def_property_readonly(
          "local_size",
          [](const World& world) {
            return world.environment().local_world_size;
          })
      .def_property_readonly(
          "backend",
          [](const World& world) {
            return std::string(world.group().backend());
          })
      .def(
          "any",
          [](const World& world, bool value) {
            at::Tensor told = at::full({1}, value ? 1 : 0, at::kInt)
                                  .to(at::Device(world.device_name()));
            return world.group()
                       .all_reduce(told, distributed::ReduceOp::max)
                       .wait()
                       .item<int>() != 0;
          },
          py::arg("value"),
          py::call_guard<py::gil_scoped_release>())
      .def(
          "barrier",
          [](const World& world) { world.group().barrier(); },
          py::call_guard<py::gil_scoped_release>());
  module.def(
      "init_distributed",
      [](const std::string& backend) {
        const distributed::InitOptions options{.backend = backend_of(backend)};
        const py::gil_scoped_release unlocked;
        return distributed::init_distributed(options);
      },
      py::arg("backend") = "");
}

} // namespace cairn::python
