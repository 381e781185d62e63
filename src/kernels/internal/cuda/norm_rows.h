#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// LayerNorm and RMSNorm. See cuda.h for what pointers, streams and results are.

/// The most columns that the kernels take, where columns and the alignment of
/// all pointers in elements are multiples of `multiple`.
constexpr std::int64_t most_norm_columns(std::int64_t multiple) {
  return multiple % 8 == 0 ? 8192 : 4096;
}

/// Rows to be normalized, and how.
struct NormRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Element element = Element::bf16; ///< of all that is not a float
  bool centred = true;             ///< LayerNorm; RMSNorm has no mean
  float epsilon = 1e-5F;
};

/// The statistics of each row that backward needs, both [rows].
struct NormStatistics {
  float* mean = nullptr;    ///< null unless centred
  float* inverse = nullptr; ///< 1 / standard deviation
};

/// Normalizes x, or x + added where `added` is not null; the sum is then
/// written to `sum`. `beta` may be null.
struct NormForward {
  const void* x = nullptr;
  const void* added = nullptr;
  const void* gamma = nullptr;
  const void* beta = nullptr;
  void* sum = nullptr;
  void* y = nullptr; ///< null if it is rounded
  /// y in e4m3, for elements of 16 bits and columns that are multiples of 8.
  /// Null: y is written as it is.
  void* rounded = nullptr;
  /// One float: an element of `rounded` stands for its value times this. Values
  /// beyond e4m3's range become its largest number.
  const float* unit = nullptr;
  /// Raised to the largest absolute value of y that is finite. May be null.
  float* largest = nullptr;
  NormStatistics statistics{};
};

[[nodiscard]] const char* norm_forward(
    const NormRows& rows,
    const NormForward& tensors,
    void* stream);

/// Writes the gradient of x, to which `through`, the gradient that reached x by
/// another way, is added unless it is null. The gradients of gamma and beta are
/// left as sums of `norm_parts(rows)` groups of rows, [parts, columns] each;
/// sum_of_parts() adds them up.
struct NormBackward {
  const void* gradient = nullptr; ///< of y
  const void* through = nullptr;
  const void* x = nullptr; ///< or the sum that was normalized
  const void* gamma = nullptr;
  NormStatistics statistics{};
  void* of_x = nullptr;
  float* gamma_parts = nullptr;
  float* beta_parts = nullptr; ///< may be null
};

std::int64_t norm_parts(const NormRows& rows);

[[nodiscard]] const char* norm_backward(
    const NormRows& rows,
    const NormBackward& tensors,
    void* stream);

} // namespace cairn::kernels::cuda
