#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/nn/vocabulary.h>

#include <cstdint>

namespace cairn::nn {

/// Number of tokens whose scores are computed at a time: few enough that the
/// scores stay small beside the weights, enough that products with the weights
/// pay. `rows`: the words that this rank scores.
std::int64_t tokens_per_chunk(const at::Tensor& hidden, std::int64_t rows);

/// Scores of this rank's words for [tokens, hidden], padding included.
at::Tensor word_scores(const at::Tensor& hidden, const VocabularyHead& head);

} // namespace cairn::nn
