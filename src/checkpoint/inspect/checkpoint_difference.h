#pragma once

#include "checkpoint/inspect/checkpoint_view.h"
#include "checkpoint/inspect/value_difference.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// A tensor that is not the same in both, or is in one only.
struct TensorDifference {
  std::string name;
  std::optional<LazyTensor> one;
  std::optional<LazyTensor> other;
  /// Where the shapes are the same and values differ.
  std::optional<ValueDifference> values;
};

struct FactDifference {
  std::string name; ///< "optimizer/name"
  std::optional<Facts> one;
  std::optional<Facts> other;
};

struct CheckpointDifference {
  std::size_t compared = 0; ///< tensors that both have
  std::vector<TensorDifference> tensors;
  std::vector<FactDifference> state;
  bool same() const { return tensors.empty() && state.empty(); }
};

struct CompareOptions {
  double tolerance = 0; ///< of values, absolute
  bool ignore_types = false;
  bool weights_only = false;
  /// Bytes of the first one's tensors, as they are compared.
  std::function<void(std::uint64_t)> advance{};
};

/// Weights are compared by their names, a tied name counts as the tensor that
/// it stands for. The rest is compared whole where both are of one format,
/// else what both have. One tensor of each is in memory at a time.
CheckpointDifference compare(
    const CheckpointView& one,
    const CheckpointView& other,
    const CompareOptions& options = {});

/// Both views under names that can be compared: Hugging Face's models get
/// Cairn's where the other one has none of their own.
std::pair<CheckpointView, CheckpointView> comparable_views(
    const std::filesystem::path& one,
    const std::filesystem::path& other,
    const std::string& tag = {},
    const std::string& other_tag = {});

} // namespace cairn::checkpoints
