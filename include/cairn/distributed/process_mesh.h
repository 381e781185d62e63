#pragma once

#include <cairn/distributed/mesh_layout.h>
#include <cairn/distributed/process_group.h>

#include <map>
#include <string>
#include <vector>

namespace cairn::distributed {

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

  const MeshLayout& layout() const { return layout_; }
  const ProcessGroup& world() const { return world_; }
  int rank() const { return world_.rank(); }

  /// The ranks that differ from this one only on `axis`.
  const ProcessGroup& along(Axis axis) const;
  int coordinate(Axis axis) const;
  int degree(Axis axis) const { return layout_.degree(axis); }

  /// The ranks that together hold one copy of the model: tensor x pipeline.
  const ProcessGroup& model_parallel() const { return model_parallel_; }
  /// The ranks that hold the same dense parameters: data x context. Dense
  /// gradients are summed over this group.
  const ProcessGroup& data_context() const { return data_context_; }
  /// First and last stage of this pipeline, which may share an embedding; a
  /// group of size 1 on the stages between.
  const ProcessGroup& embedding() const { return embedding_; }

  bool is_first_stage() const { return layout_.is_first_stage(rank()); }
  bool is_last_stage() const { return layout_.is_last_stage(rank()); }
  /// The neighbouring stages as ranks of the world; the last stage is followed
  /// by the first.
  int next_stage() const { return layout_.next_stage(rank()); }
  int previous_stage() const { return layout_.previous_stage(rank()); }

  /// A group along any other combination of axes, such as tensor x data. Every
  /// rank of the mesh calls it; each call makes a new group.
  ProcessGroup make_group(MeshLayout::Axes axes) const;

 private:
  ProcessGroup bind(const std::vector<int>& ranks, const std::string& name);

  MeshLayout layout_;
  ProcessGroup world_;
  /// Groups already made, by their ranks: axes may coincide.
  std::map<std::vector<int>, ProcessGroup> bound_;
  std::map<Axis, ProcessGroup> along_;
  ProcessGroup model_parallel_;
  ProcessGroup data_context_;
  ProcessGroup embedding_;
};

} // namespace cairn::distributed
