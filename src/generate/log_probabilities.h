#pragma once

#include <cairn/generate/text_batch.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace cairn::generate {

/// The logarithm of the sum of the exponentials of all scores. A score less
/// this is a log-probability.
double log_sum_of_exponentials(std::span<const float> scores);

/// The `count` tokens with the highest scores, best first; of equal ones the
/// lower ids come first.
std::vector<std::int64_t> highest(std::span<const float> scores, int count);

/// A token with its log-probability, and the `likeliest` ones beside it.
/// `log_sum`: log_sum_of_exponentials(), where it is known.
ScoredToken scored_token(
    std::span<const float> scores,
    std::int64_t id,
    int likeliest,
    std::optional<double> log_sum = std::nullopt);

} // namespace cairn::generate
