#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn::checkpoints {

// Patterns of names. "layers.#.mlp.up.*" stands for the names of all layers:
// "#" is a number and "*", at the end, is "weight" or "bias".

struct PatternMatch {
  std::string_view number; ///< matched by "#"
  std::string_view ending; ///< matched by "*"
};

/// Matches a name; nullopt if it does not fit.
std::optional<PatternMatch> match_pattern(
    std::string_view pattern,
    std::string_view name);

/// The name of the matched parameter in another pattern.
std::string fill_pattern(std::string_view pattern, const PatternMatch& match);

} // namespace cairn::checkpoints
