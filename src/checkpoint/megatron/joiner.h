#pragma once

#include "checkpoint/megatron/names.h"
#include "checkpoint/megatron/rank_tensors.h"

#include <cairn/checkpoint/megatron.h>
#include <cairn/checkpoint/model_parameters.h>

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace cairn::checkpoints::megatron {

/// Joins the pieces of all tensor ranks. What is missing or does not fit is a
/// CheckpointError.
class Joiner {
 public:
  Joiner(
      std::vector<RankTensors> ranks,
      const ModelDescription& description,
      MegatronHeads heads,
      double version);

  LazyTensor join(const ModelParameter& parameter);

  /// Throws for tensors that were not asked for.
  void finish();

 private:
  LazyTensor piece(
      const ModelParameter& parameter,
      const std::string& name,
      Half half,
      std::size_t rank);
  const LazyTensor& first(const std::string& name) const;
  std::vector<std::int64_t> shape_of_piece(
      const ModelParameter& parameter) const;
  LazyTensor in_our_order(const std::string& name, LazyTensor tensor) const;

  std::vector<RankTensors> ranks_;
  ModelDescription d_;
  bool queries_keys_values_; ///< of a rank: version 0
  bool turns_;               ///< of a head: version 1
  std::set<std::string, std::less<>> used_;
};

} // namespace cairn::checkpoints::megatron
