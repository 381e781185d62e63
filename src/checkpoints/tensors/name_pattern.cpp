#include "checkpoints/tensors/name_pattern.h"

#include <algorithm>

namespace cairn::checkpoints {

std::optional<PatternMatch> match_pattern(
    std::string_view pattern,
    std::string_view name) {
  PatternMatch match;
  if (const auto hash = pattern.find('#'); hash != std::string_view::npos) {
    if (!name.starts_with(pattern.substr(0, hash))) {
      return std::nullopt;
    }
    name.remove_prefix(hash);
    pattern.remove_prefix(hash + 1);
    const auto digits =
        std::min(name.find_first_not_of("0123456789"), name.size());
    match.number = name.substr(0, digits);
    name.remove_prefix(digits);
    if (digits == 0) {
      return std::nullopt;
    }
  }
  if (pattern.ends_with('*')) {
    pattern.remove_suffix(1);
    if (!name.starts_with(pattern)) {
      return std::nullopt;
    }
    match.ending = name.substr(pattern.size());
    const bool known = match.ending == "weight" || match.ending == "bias";
    return known ? std::optional(match) : std::nullopt;
  }
  return name == pattern ? std::optional(match) : std::nullopt;
}

std::string fill_pattern(std::string_view pattern, const PatternMatch& match) {
  std::string name;
  for (const char letter : pattern) {
    if (letter == '#') {
      name += match.number;
    } else if (letter == '*') {
      name += match.ending;
    } else {
      name += letter;
    }
  }
  return name;
}

} // namespace cairn::checkpoints
