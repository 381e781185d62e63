#include "nn/loss/word_scores.h"

#include "model/internal/head_chunk.h"
#include "nn/linear/product.h"

#include <ATen/TensorOperators.h>

namespace cairn::nn {

std::int64_t tokens_per_chunk(const at::Tensor& hidden, std::int64_t rows) {
  return model::tokens_per_head_chunk(rows, hidden.is_cpu());
}

at::Tensor word_scores(const at::Tensor& hidden, const VocabularyHead& head) {
  return product(hidden, head.weight.t(), head.bias);
}

} // namespace cairn::nn
