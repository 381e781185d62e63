#pragma once

#include <cairn/distributed/mesh_layout.h>
#include <cairn/distributed/process_group.h>

#include <map>
#include <string>
#include <vector>

namespace cairn::distributed {

/// Groups that a program has made itself, for ProcessMesh::from_groups(). Each
/// one contains the calling rank. A group that is left out has one rank.
struct ParallelGroups {
  /// Ranks that train the same part of the model on different samples.
  ProcessGroup data{};
  /// Ranks that hold successive stages of one model, the first stage first.
  ProcessGroup pipeline{};
  /// Ranks that divide every layer: the model-parallel group of DeepSpeed's mpu
  /// if there are no stages.
  ProcessGroup tensor{};
  /// Ranks that divide every sequence.
  ProcessGroup context{};
};

/// A MeshLayout bound to real groups: the place of this rank and its group
/// along each axis. A mesh is passed to the code that needs a group; there is
/// no global "parallel state". For people who know Megatron's mpu:
///
///   get_tensor_model_parallel_group/rank/world_size
///                            along(Axis::tensor), its rank() and size()
///   get_data_parallel_…, get_pipeline_model_parallel_…, …     likewise
///   get_model_parallel_group              model_parallel()
///   get_data_parallel_src_rank            along(Axis::data).global_ranks()[0]
///   get_pipeline_model_parallel_next_rank next_stage()
///   is_pipeline_first_stage               is_first_stage()
class ProcessMesh {
 public:
  /// Every rank of `world` makes the mesh, with the same shape. Throws
  /// ConfigError unless the degrees fill the world.
  ProcessMesh(ProcessGroup world, MeshShape shape);

  /// A mesh of groups that exist already, whatever the order of their ranks:
  /// along() returns these groups. Combinations of two axes, such as
  /// model_parallel() if there are stages, are made from them. Every rank of
  /// `world` calls it with its own groups. Throws UsageError on all ranks
  /// unless the groups of all ranks together are a mesh.
  static ProcessMesh from_groups(
      ProcessGroup world,
      const ParallelGroups& groups);

  /// The layout, which numbers places. The rank at a place has that number,
  /// except in a mesh that was made from_groups(): ask coordinate() there.
  const MeshLayout& layout() const { return layout_; }
  const ProcessGroup& world() const { return world_; }
  int rank() const { return world_.rank(); }

  /// The ranks that differ from this one only on `axis`.
  const ProcessGroup& along(Axis axis) const;
  int coordinate(Axis axis) const;
  /// The position of any rank of world() on `axis`.
  int coordinate(int rank, Axis axis) const;
  int degree(Axis axis) const { return layout_.degree(axis); }

  /// The ranks that together hold one copy of the model: tensor x pipeline.
  const ProcessGroup& model_parallel() const { return model_parallel_; }
  /// The ranks that hold the same dense parameters: data x context. Dense
  /// gradients are summed over this group.
  const ProcessGroup& data_context() const { return data_context_; }
  /// First and last stage of this pipeline, which may share an embedding; a
  /// group of size 1 on the stages between.
  const ProcessGroup& embedding() const { return embedding_; }

  bool is_first_stage() const { return layout_.is_first_stage(place_); }
  bool is_last_stage() const { return layout_.is_last_stage(place_); }
  /// The neighbouring stages as ranks of the world; the last stage is followed
  /// by the first.
  int next_stage() const { return rank_at_[layout_.next_stage(place_)]; }
  int previous_stage() const {
    return rank_at_[layout_.previous_stage(place_)];
  }

  /// A group along any other combination of axes, such as tensor x data. Every
  /// rank of the mesh calls it; each call makes a new group.
  ProcessGroup make_group(MeshLayout::Axes axes) const;

 private:
  using GroupsByRanks = std::map<std::vector<int>, ProcessGroup>;

  ProcessMesh(
      ProcessGroup world,
      const MeshLayout& layout,
      std::vector<int> rank_at,
      GroupsByRanks bound);
  ProcessGroup bind(const std::vector<int>& ranks, const std::string& name);
  int place_of(int rank) const;
  /// The ranks at some places of the layout.
  std::vector<int> ranks_at(std::vector<int> places) const;

  MeshLayout layout_;
  ProcessGroup world_;
  std::vector<int> rank_at_; ///< the rank of `world_` at each place
  int place_;                ///< the place of this rank
  /// Groups already made, by their ranks: axes may coincide.
  GroupsByRanks bound_;
  std::map<Axis, ProcessGroup> along_;
  ProcessGroup model_parallel_;
  ProcessGroup data_context_;
  ProcessGroup embedding_;
};

} // namespace cairn::distributed
