#pragma once

#include <cstdint>

// Products of fp32 matrices (docs/design/0009-cpu-speed.md).

namespace cairn::kernels::cpu {

/// True on Arm, and on x86_64 with AVX2 or AVX-512. The functions here may only
/// be called where it is.
bool has_matrix_product();

/// True where libtorch's own products are slower: on Arm. On x86_64 it brings
/// MKL, and ours are for attention, whose small products are part of a loop.
#ifdef __aarch64__
inline constexpr bool outruns_libtorch = true;
#else
inline constexpr bool outruns_libtorch = false;
#endif

/// Element (i, j) is data[i * row_step + j * column_step].
struct Matrix {
  const float* data = nullptr;
  std::int64_t row_step = 0;
  std::int64_t column_step = 1;
};

struct ProductShape {
  std::int64_t rows = 0;    ///< of the left matrix and the result
  std::int64_t columns = 0; ///< of the right matrix and the result
  std::int64_t depth = 0;   ///< columns of the left, rows of the right matrix
};

/// The effect of a causal mask on a product. Query `first + i` sees no key
/// after position `first + i`. Tiles that are entirely masked, or in which the
/// left matrix is zero, are skipped; a partly masked tile is computed in full.
struct Causal {
  enum class Part {
    none,
    scores,      ///< the result is queries by keys
    left,        ///< the left matrix is queries by keys
    left_turned, ///< the left matrix is keys by queries
  };
  Part part = Part::none;
  std::int64_t first = 0;
};

/// The result, whose rows are contiguous.
struct ProductResult {
  float* data = nullptr;
  std::int64_t row_step = 0;
  bool add = false;            ///< add to the old values
  const float* bias = nullptr; ///< one per column; not with `add`
};

/// The part of a result that one of several threads computes.
struct ProductPart {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t first_column = 0;
  std::int64_t columns = 0;
};

/// Part `index` of `count` roughly equal parts, as square as possible.
ProductPart product_part(
    const ProductShape& shape,
    std::int64_t index,
    std::int64_t count);

/// Computes a part of the product on the calling thread.
void multiply(
    const ProductShape& shape,
    const ProductPart& part,
    const Matrix& left,
    const Matrix& right,
    const ProductResult& result,
    const Causal& causal = {});

} // namespace cairn::kernels::cpu
