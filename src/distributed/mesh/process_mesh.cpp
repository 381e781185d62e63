#include <cairn/distributed/process_mesh.h>

#include "distributed/internal/partition.h"
#include "distributed/mesh/agree_on_places.h"

#include <cairn/base/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
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

std::vector<int> numbers_up_to(int count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// The part of a rank where all parts have the same size.
ProcessGroup part_of(
    const ProcessGroup& world,
    const std::vector<int>& ranks,
    const std::string& name) {
  return ranks.size() == 1 ? world.subgroup(ranks, name)
                           : partition(world, ranks, name);
}

const ProcessGroup& group_along(const ParallelGroups& groups, Axis axis) {
  switch (axis) {
    case Axis::tensor:
      return groups.tensor;
    case Axis::context:
      return groups.context;
    case Axis::data:
      return groups.data;
    case Axis::pipeline:
      return groups.pipeline;
    case Axis::expert:
    case Axis::expert_data:
      break;
  }
  throw InternalError({.what = "an axis without a group"});
}

/// The members as ranks of `world`; -1 for those that are not in it.
std::vector<int> ranks_within(
    const ProcessGroup& world,
    const ProcessGroup& group) {
  if (group.size() == 1) { // ProcessGroup() does not know its rank
    return {world.rank()};
  }
  const std::vector<int>& all = world.global_ranks();
  std::vector<int> ranks;
  for (const int member : group.global_ranks()) {
    const auto found = std::find(all.begin(), all.end(), member);
    ranks.push_back(
        found == all.end() ? -1 : static_cast<int>(found - all.begin()));
  }
  return ranks;
}

} // namespace

ProcessMesh::ProcessMesh(ProcessGroup world, MeshShape shape)
    : ProcessMesh(
          world,
          MeshLayout(shape, world.size()),
          numbers_up_to(world.size()),
          {}) {}

// All ranks cut the world into groups together, in the same order. Whether the
// groups along some axes are there already is the same on every rank.
ProcessMesh::ProcessMesh(
    ProcessGroup world,
    const MeshLayout& layout,
    std::vector<int> rank_at,
    GroupsByRanks bound)
    : layout_(layout),
      world_(std::move(world)),
      rank_at_(std::move(rank_at)),
      place_(place_of(rank())),
      bound_(std::move(bound)) {
  const auto bind_axes = [&](MeshLayout::Axes axes) {
    return bind(
        ranks_at(layout_.group_of(place_, axes)),
        group_name(layout_, axes, place_));
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
  const std::vector<int> ends = layout_.embedding_group_of(place_);
  const bool holds_embedding =
      std::find(ends.begin(), ends.end(), place_) != ends.end();
  const std::string embedding = fmt::format("embedding:{}", ends.front());
  embedding_ = holds_embedding
      ? bind(ranks_at(ends), embedding)
      // The ends make a group of their own if there are stages between them.
      : partition(world_, {rank()}, embedding);
}

ProcessMesh ProcessMesh::from_groups(
    ProcessGroup world,
    const ParallelGroups& groups) {
  GivenGroups mine;
  GroupsByRanks bound;
  for (std::size_t i = 0; i < given_axes.size(); ++i) {
    const ProcessGroup& group = group_along(groups, given_axes[i]);
    mine[i] = {group.name(), ranks_within(world, group)};
    if (group.size() > 1) {
      bound.emplace(mine[i].ranks, group);
    }
  }
  std::vector<int> rank_at = agree_on_places(world, mine);
  return ProcessMesh(
      std::move(world),
      MeshLayout(shape_of(mine)),
      std::move(rank_at),
      std::move(bound));
}

ProcessGroup ProcessMesh::bind(
    const std::vector<int>& ranks,
    const std::string& name) {
  // Axes with the same ranks share one group: connections and threads are not
  // free.
  const auto found = bound_.find(ranks);
  if (found != bound_.end()) {
    return found->second;
  }
  if (ranks == numbers_up_to(world_.size())) {
    return world_;
  }
  return bound_.emplace(ranks, part_of(world_, ranks, name)).first->second;
}

std::vector<int> ProcessMesh::ranks_at(std::vector<int> places) const {
  for (int& place : places) {
    place = rank_at_[place];
  }
  return places;
}

int ProcessMesh::place_of(int rank) const {
  const auto found = std::find(rank_at_.begin(), rank_at_.end(), rank);
  // The layout refuses the number of a rank that is nowhere.
  return found == rank_at_.end() ? rank
                                 : static_cast<int>(found - rank_at_.begin());
}

ProcessGroup ProcessMesh::make_group(MeshLayout::Axes axes) const {
  return part_of(
      world_,
      ranks_at(layout_.group_of(place_, axes)),
      group_name(layout_, axes, place_));
}

const ProcessGroup& ProcessMesh::along(Axis axis) const {
  return along_.at(axis);
}

int ProcessMesh::coordinate(Axis axis) const {
  return layout_.coordinate(place_, axis);
}

int ProcessMesh::coordinate(int rank, Axis axis) const {
  return layout_.coordinate(place_of(rank), axis);
}

} // namespace cairn::distributed
