#pragma once

#include "kernels/internal/cuda/text_rows.h"

#include <algorithm>
#include <cfloat>
#include <cstdint>

namespace cairn::kernels::cuda {

// The choice of tokens from rows of scores, as generate::choose_token() does
// it, but for the rounding of exponentials. See cuda.h for what pointers,
// streams and results are.
//
// An exponential is a whole number of parts of 2^36, so a sum of them does not
// depend on its order: a row, a rule and a chance give the same token every
// time. With `top_p`, tokens are summed from the highest score down, equal
// scores by their columns; without, by their columns.

/// How a row's token is chosen.
struct TokenRule {
  /// Tokens are chosen among the likeliest that together have this probability;
  /// 0 or 1: among all.
  double top_p = 0;
  double chance = 0;      ///< in [0, 1), drawn for this token
  float sharpness = 1;    ///< sharpness_of() the temperature
  float penalty = 1;      ///< for tokens of the list: see below
  std::int32_t row = 0;   ///< of the scores and peaks
  std::int32_t among = 0; ///< the number of first columns that may be chosen
  /// Columns that are no less likely than the k-th; 0: all, 1: the likeliest.
  std::int32_t top_k = 0;
  std::int32_t never = -1; ///< a column that may not be chosen
  /// The row's stretch of TokenChoices::penalized.
  std::int32_t first_penalized = 0;
  std::int32_t penalized = 0;
};

/// The factor of differences of scores, as a power of 2. A score of minus
/// infinity stays without a chance at every temperature.
inline float sharpness_of(double temperature) {
  const double sharpness = 1.4426950408889634 / temperature;
  return static_cast<float>(std::clamp<double>(sharpness, FLT_MIN, FLT_MAX));
}

struct TokenChoices {
  std::int64_t count = 0; ///< of the rules, each for another row
  const TokenRule* rules = nullptr;
  std::int64_t step = 0; ///< from one row of scores to the next
  /// Scores of penalized columns and of `never` are changed in place.
  float* scores = nullptr;
  /// Columns, each once in a row's stretch: a score above 0 is divided by the
  /// penalty, others are multiplied by it. Columns that may not be chosen are
  /// left out.
  const std::int32_t* penalized = nullptr;
  /// Memory for as many scores as there are penalized columns.
  float* before = nullptr;
};

/// Columns that a row of choose_tokens() has at most.
inline constexpr std::int64_t most_choices = std::int64_t{1} << 26;

/// Writes what was chosen to the peaks of the rules' rows: the column, and its
/// score before penalties. `log_sum` stays. Where a score is NaN or infinite,
/// the score is NaN; where no column has a chance, it is minus infinity.
[[nodiscard]] const char* choose_tokens(
    const TokenChoices& choices,
    ScorePeak* peaks,
    void* stream);

} // namespace cairn::kernels::cuda
