#pragma once

#include "kernels/internal/cuda/text_rows.h"

#include <cairn/kernels/stretch.h>

#include <cstddef>
#include <cstdint>

namespace cairn::kernels::cuda {

// The products of a step that computes one token of few texts. Their time is
// that of reading the weight. See cuda.h for what pointers, streams and results
// are.

inline constexpr std::int64_t most_few_rows = 8;

/// y = activation(norm(x) * weight + bias) + addend, or with a gate
/// activation(norm(x) * gate + gate_bias) * (norm(x) * weight + bias). The
/// weight and the gate are [outputs, depth], of 16 bits.
struct FewRowsProduct {
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  std::int64_t outputs = 0;
  Element element = Element::bf16; ///< of all but `y`
  const void* x = nullptr;         ///< [rows, depth]
  TextNorm norm{};
  const void* weight = nullptr;
  const void* bias = nullptr; ///< may be null
  const void* gate = nullptr; ///< null: there is none
  const void* gate_bias = nullptr;
  Activation activation = Activation::none;
  const void* addend = nullptr; ///< [rows, outputs], may be null, may be `y`
  void* y = nullptr;            ///< [rows, outputs]
  Element y_element = Element::bf16;
  /// Weights are brought to the GPU's cache before the kernels ahead have
  /// ended.
  bool fetches_ahead = true;
  /// Weights come to shared memory by bulk copies, where the GPU has these.
  bool by_copies = true;
  /// Bytes of shared memory that a block has then: so many blocks as fit on a
  /// processor have weights on their way.
  std::size_t copied_bytes = std::size_t{114} << 10;
};

/// True when multiply_few_rows() takes such a product.
bool takes(const FewRowsProduct& product);

[[nodiscard]] const char* multiply_few_rows(
    const FewRowsProduct& product,
    Start start,
    void* stream);

} // namespace cairn::kernels::cuda
