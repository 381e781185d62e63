#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/nn/vocabulary.h>

namespace cairn::nn {

/// Cross entropy of rows of scores, whose columns are this rank's part of a
/// vocabulary.
struct RowLosses {
  at::Tensor each; ///< [rows], float
  /// Gradients of the sum of weight times loss with respect to the scores.
  /// Undefined without weights.
  at::Tensor gradients;
};

/// Uses up `scores`: their memory may become that of the gradients. `labels`
/// are words of the whole vocabulary; one below 0 has no meaningful loss, and
/// its weight must be 0. All ranks of the head's group call it with rows of the
/// same tokens.
RowLosses row_losses(
    at::Tensor scores,
    const at::Tensor& labels,
    const at::Tensor& weights,
    const VocabularyHead& head);

} // namespace cairn::nn
