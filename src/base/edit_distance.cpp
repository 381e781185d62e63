#include "base/internal/edit_distance.h"

#include "base/internal/ascii_case.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline base {
namespace {

/// Removes the differences that people make without meaning another name.
std::string folded(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    c = c == '-' ? '_' : lower_case(c);
  }
  return text;
}

/// The most edits that still count as a slip: one in three characters, but one
/// in a name of two characters.
std::size_t largest_slip(std::size_t a, std::size_t b) {
  const std::size_t longer = std::max(a, b);
  return longer < 3 ? longer / 2 : longer / 3;
}

/// The distance of a name that stops early, however much is missing (`zero` for
/// `zero_optimization`): the same as two slips.
constexpr std::size_t unfinished = 2;
constexpr std::size_t shortest_start = 4;

} // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] =
          std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::optional<std::string_view> nearest(
    std::string_view name,
    std::span<const std::string_view> candidates) {
  std::size_t longest = 0;
  for (const std::string_view candidate : candidates) {
    longest = std::max(longest, candidate.size());
  }
  // `name` may be anything a file holds: a key of a megabyte must cost nothing.
  if (name.size() > 2 * longest) {
    return std::nullopt;
  }
  const std::string typed = folded(name);
  std::optional<std::string_view> best;
  std::size_t best_distance = 0;
  for (const std::string_view candidate : candidates) {
    const std::string known = folded(candidate);
    std::size_t distance = edit_distance(typed, known);
    if (typed.size() >= shortest_start && known.starts_with(typed)) {
      distance = std::min(distance, unfinished);
    } else if (distance > largest_slip(typed.size(), known.size())) {
      continue;
    }
    if (!best || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

} // namespace cairn::base
