#include "experts.h"

#include <cairn/distributed/process_mesh.h>
#include <cairn/nn/mixture.h>
#include <cairn/nn/tensor_parallel.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <optional>
#include <tuple>

namespace cairn::python {

namespace py = pybind11;

namespace {

using distributed::ProcessMesh;

/// The ranks that divide the experts; without a mesh this rank has all.
distributed::ProcessGroup owners(const std::optional<ProcessMesh>& mesh) {
  return mesh ? mesh->along(distributed::Axis::expert)
              : distributed::ProcessGroup();
}

/// Capacity, slots, weights, counts and balance loss, as in nn::Routes.
using Routes =
    std::tuple<std::int64_t, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Routes routes_of(
    const at::Tensor& scores,
    const std::optional<ProcessMesh>& mesh,
    std::int64_t top_k,
    double capacity_factor,
    std::int64_t min_capacity,
    bool drop_tokens,
    bool random_selection,
    bool sample_first,
    bool sample_second) {
  const nn::Routes routes = nn::route(
      scores,
      {.top_k = top_k,
       .capacity_factor = capacity_factor,
       .min_capacity = min_capacity,
       .drop_tokens = drop_tokens,
       .random_selection = random_selection,
       .sample_second = sample_second,
       .sample_first = sample_first},
      owners(mesh));
  return {
      routes.capacity,
      routes.slots,
      routes.weights,
      routes.counts,
      routes.balance_loss};
}

} // namespace

void add_experts(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  module.def(
      "route",
      &routes_of,
      py::arg("scores"),
      py::arg("mesh"),
      py::kw_only(),
      py::arg("top_k"),
      py::arg("capacity_factor"),
      py::arg("min_capacity"),
      py::arg("drop_tokens"),
      py::arg("random_selection"),
      py::arg("sample_first"),
      py::arg("sample_second"),
      Unlocked());
  module.def(
      "exchange",
      [](const at::Tensor& x, const ProcessMesh& mesh) {
        return nn::exchange(x, mesh.along(distributed::Axis::expert));
      },
      py::arg("x"),
      py::arg("mesh"),
      Unlocked());
}

} // namespace cairn::python
