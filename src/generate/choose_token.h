#pragma once

#include "generate/decoder.h"

#include <cairn/generate/generate.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::generate {

/// Ids that may be chosen, with the sum of the probabilities up to each, up to
/// a common factor.
struct Candidates {
  std::vector<std::int64_t> ids;
  std::vector<double> sums;
};

/// The candidates after the temperature: tokens that are no less likely than
/// the k-th, and of these the likeliest up to the first that takes their sum
/// above top_p. (Megatron-LM does the same, but allows only one of the two; of
/// equally likely tokens the lower ids come first.) Throws Error if the logits
/// have no largest value: all are minus infinity, or one is NaN.
Candidates candidates(std::span<const float> logits, const Sampling& sampling);

/// The id that is chosen when `chance`, in [0, 1), was drawn.
std::int64_t choose_token(
    std::span<const float> logits,
    const Sampling& sampling,
    double chance);

/// The likeliest token, as choose_token() gives it where it chooses none
/// other. Throws Error for the same scores.
std::int64_t likeliest_token(const Peak& peak);

} // namespace cairn::generate
