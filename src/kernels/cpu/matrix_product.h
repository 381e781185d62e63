#pragma once

#include <cstdint>

// Products of fp32 matrices, where ours are faster than what libtorch brings:
// on Arm, with a transposed right matrix (docs/design/0009-cpu-speed.md). On
// x86_64 it brings MKL, which leaves little to win.

namespace cairn::kernels::cpu {

#ifdef __aarch64__
inline constexpr bool has_matrix_product = true;
#else
inline constexpr bool has_matrix_product = false;
#endif

/// Element (i, j) is data[i * row_step + j * column_step].
struct Matrix {
  const float* data = nullptr;
  std::int64_t row_step = 0;
  std::int64_t column_step = 1;
};

struct ProductShape {
  std::int64_t rows = 0;    ///< of the left one and the result
  std::int64_t columns = 0; ///< of the right one and the result
  std::int64_t depth = 0;   ///< columns of the left one, rows of the right one
};

/// What a causal mask makes of a product. Query `first + i` sees no key behind
/// it: tiles of which nothing is wanted, or in which the left matrix is zero,
/// are not computed. (A tile that is cut is, as a whole.)
struct Causal {
  enum class Part {
    none,
    scores,      ///< the result is queries by keys
    left,        ///< the left matrix is queries by keys
    left_turned, ///< it is keys by queries
  };
  Part part = Part::none;
  std::int64_t first = 0;
};

/// Rows that lie one after the other.
struct ProductResult {
  float* data = nullptr;
  std::int64_t row_step = 0;
  bool add = false;            ///< to what is there
  const float* bias = nullptr; ///< one per column; not with `add`
};

/// The part of a result that one of several threads computes.
struct ProductPart {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t first_column = 0;
  std::int64_t columns = 0;
};

/// Part `index` of `count` about equal ones, as square as can be.
ProductPart product_part(
    const ProductShape& shape,
    std::int64_t index,
    std::int64_t count);

/// On the calling thread.
void multiply(
    const ProductShape& shape,
    const ProductPart& part,
    const Matrix& left,
    const Matrix& right,
    const ProductResult& result,
    const Causal& causal = {});

} // namespace cairn::kernels::cpu
