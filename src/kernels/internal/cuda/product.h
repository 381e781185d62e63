#pragma once

#include "kernels/internal/cuda/fp8.h"

#include <cairn/kernels/stretch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace cairn::kernels::cuda {

// Products of matrices of 16 or 8 bits by cuBLASLt, which comes with libtorch.
// See cuda.h for what pointers, streams and results are.

/// A factor of a product, row after row.
struct Factor {
  const void* data = nullptr;
  std::int64_t step = 0;   ///< elements from one row in memory to the next
  bool transposed = false; ///< the rows in memory are the factor's columns
};

/// The last operation on a product, before it is written.
enum class Finish {
  nothing,
  add_bias,      ///< adds a bias to each row
  gelu,          ///< adds a bias, keeps the sums, and takes their GELU
  gelu_gradient, ///< multiplies by GELU's slope at sums that were kept
  gelu_alone,    ///< adds a bias, and takes the GELU of the sums
};

/// Factors in fp8. The left one is not transposed and the right one is, as a
/// GPU's fp8 products need it. Units begin at multiples of 16 bytes.
struct Fp8Factors {
  Fp8 left = Fp8::e4m3;
  Fp8 right = Fp8::e4m3;
  const float* left_unit = nullptr; ///< Fp8Target::unit of that matrix
  const float* right_unit = nullptr;
  bool exact_sums = false; ///< sums of float's precision, a little slower
};

/// left [rows, depth] times right [depth, columns]. All matrices lie at
/// multiples of 16 bytes, and so does each row of them.
struct Product {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  /// The type of all matrices except the result and factors in fp8.
  Element element = Element::bf16;
  std::optional<Fp8Factors> fp8{}; ///< unset: factors of 16 bits
  Factor left;
  Factor right;
  void* result = nullptr; ///< [rows, columns], without gaps
  Element result_element = Element::bf16;
  bool add = false; ///< adds to the result, instead of overwriting it
  /// A matrix like the result, to which the product is added; may be null.
  const void* addend = nullptr;
  Finish finish = Finish::nothing;
  const void* bias = nullptr; ///< [columns]
  void* sums = nullptr;       ///< [rows, columns]: kept for GELU's slope
};

/// True when multiply() takes such a product.
bool takes(const Product& product);

/// How one of cuBLASLt's algorithms is chosen.
enum class Algorithm {
  first,   ///< by its own rule
  fastest, ///< by trying all that it proposes, when a large shape is first met
};

/// True when multiply() would try algorithms for the fastest one now, which
/// multiplies many times.
bool would_try(const Product& product, void* stream);

inline constexpr std::size_t product_workspace = std::size_t{32} << 20;

/// Multiplies. `workspace` has product_workspace bytes.
[[nodiscard]] const char* multiply(
    const Product& product,
    Algorithm algorithm,
    void* workspace,
    void* stream);

/// True when a product of that size takes so long that trying ways to compute
/// it pays.
constexpr bool pays_to_try(
    std::int64_t rows,
    std::int64_t columns,
    std::int64_t depth) {
  constexpr std::int64_t work = std::int64_t{1} << 31;
  return rows * columns >= work / depth;
}

/// The number of the fastest of several ways to compute the same, if `what` was
/// tried before: a line of text with all that matters for their speed. Choices
/// are remembered as those of algorithms are.
std::optional<int> known_way(const std::string& what);

/// Tries the ways, and remembers which is the fastest. Each queues its work on
/// the stream, and may be called several times. Does nothing while a graph is
/// recorded.
void try_ways(
    const std::string& what,
    std::span<const std::function<void()>> ways,
    void* stream);

} // namespace cairn::kernels::cuda
