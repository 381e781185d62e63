#include <cairn/distributed/process_mesh.h>

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace cairn::distributed {
namespace {

std::string group_name(
    const MeshLayout& layout,
    MeshLayout::Axes axes,
    int rank) {
  std::string name;
  for (const Axis axis : axes) {
    name += (name.empty() ? "" : "-") + std::string(axis_name(axis));
  }
  return fmt::format("{}:{}", name, layout.group_index(rank, axes));
}

} // namespace

// Every rank makes its groups in the same order, so that no two ranks wait for
// each other.
ProcessMesh::ProcessMesh(ProcessGroup world, MeshShape shape)
    : layout_(shape, world.size()), world_(std::move(world)) {
  const auto bind_axes = [&](MeshLayout::Axes axes) {
    return bind(
        layout_.group_of(rank(), axes),
        group_name(layout_, axes, rank()));
  };
  for (const Axis axis :
       {Axis::tensor,
        Axis::context,
        Axis::data,
        Axis::pipeline,
        Axis::expert,
        Axis::expert_data}) {
    along_.emplace(axis, bind_axes(MeshLayout::Axes(&axis, 1)));
  }
  model_parallel_ = bind_axes(distributed::model_parallel);
  data_context_ = bind_axes(distributed::data_context);
  const std::vector<int> ends = layout_.embedding_group_of(rank());
  const bool holds_embedding =
      std::find(ends.begin(), ends.end(), rank()) != ends.end();
  embedding_ = bind(
      holds_embedding ? ends : std::vector<int>{rank()},
      fmt::format("embedding:{}", ends.front()));
}

ProcessGroup ProcessMesh::bind(
    const std::vector<int>& ranks,
    const std::string& name) {
  if (static_cast<int>(ranks.size()) == world_.size()) {
    return world_;
  }
  // Axes with the same ranks share one group: connections and threads are not
  // free.
  const auto found = bound_.find(ranks);
  if (found != bound_.end()) {
    return found->second;
  }
  return bound_.emplace(ranks, world_.subgroup(ranks, name)).first->second;
}

ProcessGroup ProcessMesh::make_group(MeshLayout::Axes axes) const {
  return world_.subgroup(
      layout_.group_of(rank(), axes),
      group_name(layout_, axes, rank()));
}

const ProcessGroup& ProcessMesh::along(Axis axis) const {
  return along_.at(axis);
}

int ProcessMesh::coordinate(Axis axis) const {
  return layout_.coordinate(rank(), axis);
}

} // namespace cairn::distributed
