#include "nn/loss/word_scores.h"

#include "nn/linear/product.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <bit>

namespace cairn::nn {

std::int64_t tokens_per_chunk(const at::Tensor& hidden, std::int64_t rows) {
  const auto tokens = [&](int bits) {
    return std::max<std::int64_t>(
        256,
        (std::int64_t{1} << bits) / std::max<std::int64_t>(rows, 1));
  };
  if (hidden.is_cpu()) {
    return tokens(24);
  }
  // A power of two divides most batches and fits the tiles of a product.
  return static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(tokens(29))));
}

at::Tensor word_scores(const at::Tensor& hidden, const VocabularyHead& head) {
  return product(hidden, head.weight.t(), head.bias);
}

} // namespace cairn::nn
