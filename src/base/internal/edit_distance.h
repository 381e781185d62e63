#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace cairn::inline base {

/// The number of insertions, deletions, substitutions and swaps of neighbours
/// that turn one string into the other (optimal string alignment: no part of
/// the string is edited twice).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that someone who typed `name` most likely meant, for "did you
/// mean"; none when nothing is close. Case is ignored, '-' equals '_', and a
/// `name` that is the start of a candidate counts as near. Of equally near
/// candidates the first wins.
std::optional<std::string_view> nearest(
    std::string_view name,
    std::span<const std::string_view> candidates);

} // namespace cairn::base
