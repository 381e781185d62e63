#pragma once

#include <cstdint>
#include <span>

namespace cairn::generate {

/// Makes the tokens of a text less likely, each once however often it occurs:
/// its score is divided by the penalty, or multiplied if it is below 0.
void penalize(
    std::span<float> scores,
    std::span<const std::int64_t> text,
    double penalty);

} // namespace cairn::generate
