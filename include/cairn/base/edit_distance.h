#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace cairn {

/// How many insertions, deletions, substitutions and swaps of neighbours turn
/// one string into the other (optimal string alignment: no part of the string
/// is edited twice).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate someone who typed `name` most likely meant, for "did you
/// mean"; none when nothing is close. Case does not count, nor does '-' against
/// '_', and a name that only stops early counts as near. Of equally near
/// candidates the first is taken.
std::optional<std::string_view> nearest(
    std::string_view name,
    std::span<const std::string_view> candidates);

} // namespace cairn
