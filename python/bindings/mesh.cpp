#include "mesh.h"

#include <cairn/distributed/init_distributed.h>
#include <cairn/distributed/process_mesh.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

namespace cairn::python {

namespace py = pybind11;

namespace {

using distributed::Axis;
using distributed::ProcessGroup;
using distributed::ProcessMesh;
using distributed::World;

ProcessMesh mesh_of_experts(const World& world, int ranks) {
  return {
      world.group(),
      distributed::MeshShape{.data = world.size(), .expert = ranks}};
}

/// The group of the ranks that a program names, of which this is one.
ProcessGroup group_of(
    const World& world,
    const std::vector<int>& ranks,
    const std::string& name) {
  return ranks.size() == 1 ? ProcessGroup()
                           : world.group().subgroup(ranks, name);
}

ProcessMesh mesh_of_groups(
    const World& world,
    const std::vector<int>& data,
    const std::vector<int>& tensor,
    const std::vector<int>& pipeline) {
  return ProcessMesh::from_groups(
      world.group(),
      {.data = group_of(world, data, "mpu data"),
       .pipeline = group_of(world, pipeline, "mpu pipeline"),
       .tensor = group_of(world, tensor, "mpu tensor")});
}

} // namespace

void add_mesh(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::enum_<Axis>(module, "Axis")
      .value("tensor", Axis::tensor)
      .value("data", Axis::data)
      .value("pipeline", Axis::pipeline)
      .value("expert", Axis::expert)
      .value("expert_data", Axis::expert_data);
  py::class_<ProcessMesh>(
      module,
      "Mesh",
      "Groups of ranks that divide a model.")
      .def_static(
          "of_experts",
          &mesh_of_experts,
          py::arg("world"),
          py::arg("ranks"),
          Unlocked())
      .def_static(
          "of_groups",
          &mesh_of_groups,
          py::arg("world"),
          py::arg("data"),
          py::arg("tensor"),
          py::arg("pipeline"),
          Unlocked())
      .def(
          "size",
          [](const ProcessMesh& self, Axis axis) {
            return self.along(axis).size();
          })
      .def("rank", [](const ProcessMesh& self, Axis axis) {
        return self.coordinate(axis);
      });
}

} // namespace cairn::python
