#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace cairn::nn {

/// The rows of a matrix in groups that follow each other, one for each expert.
/// Rows after the last group belong to nobody.
struct RowGroups {
  at::Tensor ends; ///< where each group ends, [groups], int32
  /// The same as the host knows it. Empty on a GPU as long as nobody asked: the
  /// host would have to wait for it.
  std::vector<std::int64_t> known_ends{};
};

} // namespace cairn::nn
