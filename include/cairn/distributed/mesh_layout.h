#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace cairn::distributed {

/// The ways a job is divided. `expert` and `expert_data` cut the same ranks a
/// second time, for the layers of a mixture of experts: the ranks that other
/// layers see as data x context are expert_data x expert for those layers.
enum class Axis { tensor, context, data, pipeline, expert, expert_data };

std::string_view axis_name(Axis axis);

/// Number of parts along each axis. The world has tensor x context x data x
/// pipeline ranks; `expert` divides data x context.
struct MeshShape {
  int data = 1;
  int pipeline = 1;
  int tensor = 1;
  int expert = 1;
  int context = 1;

  /// Returns `degrees` with `data` chosen to make the mesh fill `world_size`
  /// ranks. Throws ConfigError when the other degrees do not divide it.
  static MeshShape infer(int world_size, MeshShape degrees);

  int world_size() const { return data * pipeline * tensor * context; }
  bool operator==(const MeshShape&) const = default;
};

/// The place of every rank and the groups that it talks to, in Megatron's
/// order: neighbours in rank differ in tensor first, then context, data,
/// pipeline; with experts, tensor, expert, expert_data, pipeline. Needs no
/// process: the planner and the tests make one for a thousand ranks.
class MeshLayout {
 public:
  /// A set of axes; the order in which they are named does not matter.
  using Axes = std::span<const Axis>;

  /// Throws ConfigError naming every degree unless they fill `world_size`.
  MeshLayout(MeshShape shape, int world_size);
  explicit MeshLayout(MeshShape shape)
      : MeshLayout(shape, shape.world_size()) {}

  const MeshShape& shape() const { return shape_; }
  int world_size() const { return shape_.world_size(); }

  /// Number of parts that `axis` is cut into.
  int degree(Axis axis) const;
  /// Position of a rank on `axis`.
  int coordinate(int rank, Axis axis) const;

  /// Every group of ranks that differ only in `axes`. Together the groups hold
  /// all world_size() ranks, each exactly once.
  std::vector<std::vector<int>> groups(Axes axes) const;
  std::vector<std::vector<int>> groups(Axis axis) const {
    return groups(Axes(&axis, 1));
  }

  /// The one of groups(axes) that contains `rank`.
  std::vector<int> group_of(int rank, Axes axes) const;
  std::vector<int> group_of(int rank, Axis axis) const {
    return group_of(rank, Axes(&axis, 1));
  }

  /// Position in groups(axes) of the group that contains `rank`.
  int group_index(int rank, Axes axes) const;

  bool is_first_stage(int rank) const;
  bool is_last_stage(int rank) const;
  /// The rank at the same place of the next or previous stage; the last stage
  /// is followed by the first.
  int next_stage(int rank) const;
  int previous_stage(int rank) const;

  /// The ranks of this rank's pipeline that hold the word embedding: the first
  /// stage, and the last stage when its output layer shares the embedding.
  std::vector<int> embedding_group_of(int rank) const;

 private:
  struct Cut {
    int degree;
    int stride;
    bool inside; ///< true when the ranks of one group differ here
  };
  std::vector<Cut> cuts(Axes axes) const;
  int stride(Axis axis) const;
  void check_rank(int rank) const;

  MeshShape shape_;
};

inline constexpr Axis model_parallel[] = {Axis::tensor, Axis::pipeline};
inline constexpr Axis data_context[] = {Axis::context, Axis::data};
inline constexpr Axis tensor_context[] = {Axis::tensor, Axis::context};
inline constexpr Axis tensor_data[] = {Axis::tensor, Axis::data};
inline constexpr Axis tensor_data_context[] = {
    Axis::tensor,
    Axis::context,
    Axis::data};
inline constexpr Axis tensor_expert[] = {Axis::tensor, Axis::expert};

} // namespace cairn::distributed
