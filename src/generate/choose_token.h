#pragma once

#include <cairn/generate/generate.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::generate {

/// Ids that may be chosen, with the sums of their probabilities up to each, as
/// far as a common factor.
struct Candidates {
  std::vector<std::int64_t> ids;
  std::vector<double> sums;
};

/// After the temperature: those that are no less likely than the k-th, and of
/// these the likeliest up to the first that takes their sum above top_p. (As in
/// Megatron-LM, which allows one of the two; of several that are alike the
/// lower ids come first.) Throws Error if the logits have no largest: all are
/// minus infinity, or one is no number.
Candidates candidates(std::span<const float> logits, const Sampling& sampling);

/// The id that is chosen where `chance`, in [0, 1), was drawn.
std::int64_t choose_token(
    std::span<const float> logits,
    const Sampling& sampling,
    double chance);

} // namespace cairn::generate
