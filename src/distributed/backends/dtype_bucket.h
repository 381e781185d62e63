#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace cairn::distributed {

/// Tensors of one type, to be reduced in one call.
struct DtypeBucket {
  at::ScalarType dtype;
  std::vector<std::size_t> members; ///< positions in the caller's list

  std::vector<at::Tensor> pick(const std::vector<at::Tensor>& tensors) const;
};

/// Groups tensors by type, in order of first appearance, which is the same on
/// every rank.
std::vector<DtypeBucket> bucket_by_dtype(
    const std::vector<at::Tensor>& tensors);

} // namespace cairn::distributed
