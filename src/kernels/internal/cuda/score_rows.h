#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// Softmax and cross entropy over a vocabulary. See cuda.h for what pointers,
// streams and results are.

/// Scores of a vocabulary, a row for each token. Columns from `used` on are
/// padding: they count as minus infinity.
struct ScoreRows {
  void* scores = nullptr;
  Element element = Element::bf16;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t used = 0;
};

/// Sums of each row, all [rows].
struct RowSums {
  float* highest = nullptr; ///< highest score
  float* sum = nullptr;     ///< sum of e^(score - highest)
  float* label = nullptr;   ///< the label's score; 0 where it has no column
};

/// Reads each row once. `labels` are columns; one outside of the used columns
/// belongs to another rank, or to no word at all.
[[nodiscard]] const char* sum_scores(
    const ScoreRows& scores,
    const std::int64_t* labels,
    const RowSums& sums,
    void* stream);

/// Turns scores into the gradients of the sum of weight times cross entropy,
/// where `log_sums` are the logarithms of the sums of all ranks' exponentials.
[[nodiscard]] const char* scores_to_gradients(
    const ScoreRows& scores,
    const std::int64_t* labels,
    const float* log_sums,
    const float* weights,
    void* stream);

/// Does both for a rank that has the whole vocabulary: `losses` become the
/// cross entropy of each row and, unless `weights` is null, scores become
/// gradients while their row is in the caches.
[[nodiscard]] const char* cross_entropy(
    const ScoreRows& scores,
    const std::int64_t* labels,
    const float* weights,
    float* losses,
    void* stream);

} // namespace cairn::kernels::cuda
