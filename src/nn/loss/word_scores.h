#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/nn/vocabulary.h>

#include <cstdint>

namespace cairn::nn {

/// model::tokens_per_head_chunk() where `hidden` is.
std::int64_t tokens_per_chunk(const at::Tensor& hidden, std::int64_t rows);

/// Scores of this rank's words for [tokens, hidden], padding included.
at::Tensor word_scores(const at::Tensor& hidden, const VocabularyHead& head);

} // namespace cairn::nn
