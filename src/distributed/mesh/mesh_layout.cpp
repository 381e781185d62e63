#include <cairn/distributed/mesh_layout.h>

#include <cairn/base/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace cairn::distributed {
namespace {

std::string describe(const MeshShape& shape) {
  return fmt::format(
      "data {} x context {} x tensor {} x pipeline {}, expert {}",
      shape.data,
      shape.context,
      shape.tensor,
      shape.pipeline,
      shape.expert);
}

void check_positive(const MeshShape& shape, int world_size) {
  const int smallest = std::min(
      {shape.data,
       shape.pipeline,
       shape.tensor,
       shape.expert,
       shape.context,
       world_size});
  if (smallest < 1) {
    throw ConfigError(
        {.what = "every parallel degree and the world must be at least 1",
         .where = "mesh",
         .values = fmt::format("{}; world {}", describe(shape), world_size)});
  }
}

/// Ranks of one replica: the product of all degrees but `data`. 64 bits,
/// because the degrees come from a configuration file.
std::int64_t ranks_per_replica(const MeshShape& shape) {
  return std::int64_t{shape.pipeline} * shape.tensor * shape.context;
}

bool is_expert_axis(Axis axis) {
  return axis == Axis::expert || axis == Axis::expert_data;
}

bool is_dense_axis(Axis axis) {
  return axis == Axis::context || axis == Axis::data;
}

} // namespace

std::string_view axis_name(Axis axis) {
  switch (axis) {
    case Axis::tensor:
      return "tensor";
    case Axis::context:
      return "context";
    case Axis::data:
      return "data";
    case Axis::pipeline:
      return "pipeline";
    case Axis::expert:
      return "expert";
    case Axis::expert_data:
      return "expert_data";
  }
  throw InternalError({.what = "an axis outside the enumeration"});
}

MeshShape MeshShape::infer(int world_size, MeshShape degrees) {
  degrees.data = 1;
  check_positive(degrees, world_size);
  const std::int64_t replica = ranks_per_replica(degrees);
  if (replica > world_size || world_size % replica != 0) {
    throw ConfigError(
        {.what = fmt::format(
             "the world size {} is not a multiple of context {} x tensor {} x "
             "pipeline {} = {}",
             world_size,
             degrees.context,
             degrees.tensor,
             degrees.pipeline,
             replica),
         .where = "mesh",
         .remedy = fmt::format(
             "start a multiple of {} ranks, or choose degrees whose product "
             "divides {}",
             replica,
             world_size)});
  }
  degrees.data = static_cast<int>(world_size / replica);
  return MeshLayout(degrees, world_size).shape();
}

MeshLayout::MeshLayout(MeshShape shape, int world_size) : shape_(shape) {
  check_positive(shape, world_size);
  const std::int64_t replica = ranks_per_replica(shape);
  // Divide instead of multiplying by data: four large degrees overflow.
  if (replica > world_size || world_size % replica != 0 ||
      world_size / replica != shape.data) {
    const bool fits = replica <= world_size && world_size % replica == 0;
    throw ConfigError(
        {.what = fmt::format(
             "the parallel degrees do not multiply to the world size {}",
             world_size),
         .where = "mesh",
         .values = describe(shape),
         .remedy = fits
             ? fmt::format("data {} would fill it", world_size / replica)
             : fmt::format(
                   "no data degree fits: context x tensor x pipeline = {} "
                   "does not divide {}",
                   replica,
                   world_size)});
  }
  if ((shape.data * shape.context) % shape.expert != 0) {
    throw ConfigError(
        {.what = fmt::format(
             "expert {} does not divide data {} x context {} = {}",
             shape.expert,
             shape.data,
             shape.context,
             shape.data * shape.context),
         .where = "mesh",
         .values = fmt::format("{}; world {}", describe(shape), world_size),
         .remedy = "experts are spread over the ranks that share no other "
                   "part of the model"});
  }
}

int MeshLayout::degree(Axis axis) const {
  switch (axis) {
    case Axis::tensor:
      return shape_.tensor;
    case Axis::context:
      return shape_.context;
    case Axis::data:
      return shape_.data;
    case Axis::pipeline:
      return shape_.pipeline;
    case Axis::expert:
      return shape_.expert;
    case Axis::expert_data:
      return shape_.data * shape_.context / shape_.expert;
  }
  throw InternalError({.what = "an axis outside the enumeration"});
}

int MeshLayout::stride(Axis axis) const {
  switch (axis) {
    case Axis::tensor:
      return 1;
    case Axis::context:
    case Axis::expert:
      return shape_.tensor;
    case Axis::data:
      return shape_.tensor * shape_.context;
    case Axis::expert_data:
      return shape_.tensor * shape_.expert;
    case Axis::pipeline:
      return shape_.tensor * shape_.context * shape_.data;
  }
  throw InternalError({.what = "an axis outside the enumeration"});
}

void MeshLayout::check_rank(int rank) const {
  if (rank < 0 || rank >= world_size()) {
    throw UsageError(
        {.what = fmt::format("there is no rank {}", rank),
         .where = "mesh",
         .values = fmt::format("world {}", world_size())});
  }
}

int MeshLayout::coordinate(int rank, Axis axis) const {
  check_rank(rank);
  return rank / stride(axis) % degree(axis);
}

std::vector<MeshLayout::Cut> MeshLayout::cuts(Axes axes) const {
  const bool expert = std::any_of(axes.begin(), axes.end(), is_expert_axis);
  if (expert && std::any_of(axes.begin(), axes.end(), is_dense_axis)) {
    throw UsageError(
        {.what = "expert and expert_data cut the same ranks as data and "
                 "context; a group cannot run along both",
         .where = "mesh"});
  }
  const Axis grid[] = {
      Axis::tensor,
      expert ? Axis::expert : Axis::context,
      expert ? Axis::expert_data : Axis::data,
      Axis::pipeline};
  std::vector<Cut> result;
  for (const Axis axis : grid) {
    const bool inside = std::find(axes.begin(), axes.end(), axis) != axes.end();
    result.push_back({degree(axis), stride(axis), inside});
  }
  return result;
}

std::vector<int> MeshLayout::group_of(int rank, Axes axes) const {
  check_rank(rank);
  std::vector<int> ranks = {rank};
  const std::vector<Cut> grid = cuts(axes);
  for (const Cut& cut : grid) {
    if (cut.inside) {
      ranks[0] -= rank / cut.stride % cut.degree * cut.stride;
    }
  }
  // Each slower axis repeats the ranks that the faster axes have produced.
  for (const Cut& cut : grid) {
    if (cut.inside) {
      const std::size_t block = ranks.size();
      for (int i = 1; i < cut.degree; ++i) {
        for (std::size_t j = 0; j < block; ++j) {
          ranks.push_back(ranks[j] + i * cut.stride);
        }
      }
    }
  }
  return ranks;
}

int MeshLayout::group_index(int rank, Axes axes) const {
  check_rank(rank);
  int index = 0;
  int step = 1;
  for (const Cut& cut : cuts(axes)) {
    if (!cut.inside) {
      index += rank / cut.stride % cut.degree * step;
      step *= cut.degree;
    }
  }
  return index;
}

std::vector<std::vector<int>> MeshLayout::groups(Axes axes) const {
  std::vector<std::vector<int>> result;
  for (int rank = 0; rank < world_size(); ++rank) {
    const auto index = static_cast<std::size_t>(group_index(rank, axes));
    if (index >= result.size()) {
      result.resize(index + 1);
    }
    // Ranks ascend within a group, because strides grow with the axes.
    result[index].push_back(rank);
  }
  return result;
}

bool MeshLayout::is_first_stage(int rank) const {
  return coordinate(rank, Axis::pipeline) == 0;
}

bool MeshLayout::is_last_stage(int rank) const {
  return coordinate(rank, Axis::pipeline) == shape_.pipeline - 1;
}

int MeshLayout::next_stage(int rank) const {
  check_rank(rank);
  return (rank + stride(Axis::pipeline)) % world_size();
}

int MeshLayout::previous_stage(int rank) const {
  check_rank(rank);
  return (rank + world_size() - stride(Axis::pipeline)) % world_size();
}

std::vector<int> MeshLayout::embedding_group_of(int rank) const {
  std::vector<int> stages = group_of(rank, Axis::pipeline);
  if (stages.size() > 2) {
    stages = {stages.front(), stages.back()};
  }
  return stages;
}

} // namespace cairn::distributed
