#pragma once

#include "engine/build/parameter_share.h"
#include "zero/internal/layout.h"
#include "zero/internal/rank_groups.h"

#include <cairn/checkpoints/slices.h>
#include <cairn/distributed/process_mesh.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace cairn::inline engine {

/// Decides which elements of a model this rank speaks for. All ranks together
/// speak for every element once: in checkpoints, norms and counts. An element
/// that several ranks hold belongs to the first of them.
class SliceOwner {
 public:
  /// The ranks of a job, as in Job.
  struct Ranks {
    const zero::RankGroups& groups;
    const std::optional<distributed::ProcessMesh>& mesh;
  };
  /// All ranks make it together, with the same number of parameter groups.
  /// Layout, shares and ranks outlive it.
  SliceOwner(
      const zero::Layout& layout,
      const std::vector<ParameterShare>& shares,
      int groups,
      const Ranks& ranks);

  /// True when this rank speaks for its part of a parameter or buffer.
  bool speaks_for(const ParameterShare& share) const;
  /// True when this rank speaks for the numbers of a parameter group.
  bool speaks_for_group(int group) const;
  /// This rank's shard of a bucket.
  zero::Range shard(int bucket) const;

  /// Calls visit(slice, part) for the parameters in `values`, which are the
  /// elements `held` of a bucket.
  using Visit = std::function<void(const zero::Slice& slice, at::Tensor& part)>;
  void for_each_slice(
      int bucket,
      zero::Range held,
      at::Tensor& values,
      const Visit& visit) const;

  /// Hands the slices that this rank speaks for to a sink, named `kind`/NAME.
  /// `values` are the elements `held` of a bucket.
  void put(
      checkpoints::Sink& sink,
      int bucket,
      zero::Range held,
      std::string_view kind,
      const at::Tensor& values) const;

 private:
  zero::Range spoken_for(int bucket, zero::Range held) const;

  const zero::Layout& layout_;
  const std::vector<ParameterShare>& shares_;
  Ranks ranks_;
  int model_rank_; ///< within the ranks of one copy of the model
  /// The first model rank that has a part of each parameter group.
  std::vector<std::int64_t> group_speakers_;
};

} // namespace cairn::engine
