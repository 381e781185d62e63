#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::checkpoints {

// Patterns of names: "layers.#.mlp.up.*" stands for every layer's number and,
// at the end, for "weight" and "bias".

struct PatternMatch {
  std::string_view number; ///< for "#"
  std::string_view ending; ///< for "*"
};

/// Nothing if the name does not fit.
std::optional<PatternMatch> match_pattern(
    std::string_view pattern,
    std::string_view name);

/// The name that another pattern has for the same parameter.
std::string fill_pattern(std::string_view pattern, const PatternMatch& match);

} // namespace cairn::checkpoints
