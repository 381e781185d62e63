#pragma once

#include "kernels/internal/cuda/column_sums.h"

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// Products of groups of rows, such as the tokens of each expert, in bf16 on
// Hopper GPUs. Where the groups end is known to the GPU alone; a group may have
// any number of rows, also none. All matrices lie at multiples of 16 bytes, and
// their rows have multiples of 8 elements. See cuda.h for what pointers,
// streams and results are.

/// Rows in groups that follow each other. Rows after the last group belong to
/// nobody: nothing is written there.
struct ProductGroups {
  std::int64_t rows = 0; ///< of all groups and of nobody
  std::int64_t groups = 0;
  const std::int32_t* ends = nullptr; ///< one for each group
};

/// The last operation on a product of rows, before it is written.
enum class GroupFinish {
  nothing,
  add_bias,      ///< adds the group's bias to each row
  gelu,          ///< adds the bias, keeps the sums, and takes their GELU
  gelu_gradient, ///< multiplies by GELU's slope at sums that were kept
};

/// Each group of rows of `left`, [rows, depth], times its own matrix.
struct RowsProduct {
  ProductGroups groups;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  const void* left = nullptr;
  const void* right = nullptr; ///< [groups, depth, columns]
  /// True: `right` is [groups, columns, depth].
  bool transposed = false;
  void* result = nullptr; ///< [rows, columns]
  GroupFinish finish = GroupFinish::nothing;
  const void* bias = nullptr; ///< [groups, columns], or null: nothing is added
  void* sums = nullptr;       ///< [rows, columns]: kept for GELU's slope
  Gelu kind = Gelu::tanh;
  /// With GroupFinish::gelu_gradient, the sums of columns of parts of the
  /// groups: [product_parts(), columns].
  float* parts = nullptr;
};

/// Each group of rows of `left`, [rows, out], transposed, times the same group
/// of `right`, [rows, in]: gradients of weights.
struct WeightsProduct {
  ProductGroups groups;
  std::int64_t out = 0;
  std::int64_t in = 0;
  const void* left = nullptr;
  const void* right = nullptr;
  void* result = nullptr;          ///< [groups, out, in]
  Element element = Element::bf16; ///< the result's: bf16 or fp32
  bool add = false; ///< adds to the result, instead of overwriting it
};

/// True when the current device computes such products.
bool has_grouped_products();

/// True when the product's sizes and addresses are as they must be.
bool takes(const RowsProduct& product);
bool takes(const WeightsProduct& product);

[[nodiscard]] const char* multiply(const RowsProduct& product, void* stream);
[[nodiscard]] const char* multiply(const WeightsProduct& product, void* stream);

/// Rows of RowsProduct::parts.
std::int64_t product_parts(const ProductGroups& groups);

/// Writes the sums of the parts of each group, [groups, columns]. Their order
/// depends on the group's rows alone.
[[nodiscard]] const char* sum_product_parts(
    const ProductGroups& groups,
    std::int64_t columns,
    const float* parts,
    void* sums,
    Element element,
    void* stream);

} // namespace cairn::kernels::cuda
