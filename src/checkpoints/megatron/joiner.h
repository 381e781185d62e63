#pragma once

#include "checkpoints/megatron/names.h"
#include "checkpoints/megatron/rank_tensors.h"

#include <cairn/checkpoints/megatron.h>
#include <cairn/model/parameters.h>

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace cairn::checkpoints::megatron {

/// Joins the pieces of all tensor ranks. A piece that is missing or does not
/// fit is a CheckpointError.
class Joiner {
 public:
  Joiner(
      Contents contents,
      const model::ModelDescription& description,
      MegatronHeads heads,
      double version);

  LazyTensor join(const model::ModelParameter& parameter);

  /// Throws CheckpointError if there are tensors that were not asked for.
  void finish();

 private:
  LazyTensor piece(
      const model::ModelParameter& parameter,
      const std::string& name,
      Half half,
      std::size_t rank);
  const LazyTensor& first(const std::string& name) const;
  std::vector<std::int64_t> shape_of_piece(
      const model::ModelParameter& parameter) const;
  LazyTensor in_our_order(
      const model::ModelParameter& parameter,
      LazyTensor tensor) const;

  std::vector<RankTensors> ranks_;
  MegatronNames names_;
  std::int64_t head_blocks_;
  model::ModelDescription d_;
  /// Order of version 0: all queries of a rank, all keys, all values.
  bool queries_keys_values_;
  /// Order of version 1: the rows of a head take turns.
  bool turns_;
  std::set<std::string, std::less<>> used_;
};

} // namespace cairn::checkpoints::megatron
