#pragma once

#include "checkpoints/inspect/value_difference.h"
#include "checkpoints/internal/checkpoint_view.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// A tensor that differs between two checkpoints, or is in one only.
struct TensorDifference {
  std::string name;
  std::optional<LazyTensor> one;
  std::optional<LazyTensor> other;
  /// Difference of the values; set where the shapes are the same and values
  /// differ.
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
  double tolerance = 0; ///< absolute, of values
  bool ignore_types = false;
  bool weights_only = false;
  /// Called with the bytes of the first checkpoint's tensors as they are
  /// compared.
  std::function<void(std::uint64_t)> advance{};
};

/// Compares two checkpoints. Weights are compared by name; a tied name counts
/// as the tensor that it stands for. Everything else is compared whole if both
/// have the same format; otherwise only the common parts. One tensor of each is
/// in memory at a time.
CheckpointDifference compare(
    const CheckpointView& one,
    const CheckpointView& other,
    const CompareOptions& options = {});

/// Views of both under names that can be compared: where only one is a Hugging
/// Face model and no name is in both, that one gets Cairn's names.
std::pair<CheckpointView, CheckpointView> comparable_views(
    const std::filesystem::path& one,
    const std::filesystem::path& other,
    const std::string& tag = {},
    const std::string& other_tag = {});

} // namespace cairn::checkpoints
