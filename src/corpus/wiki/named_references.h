#pragma once

#include <cstddef>
#include <string_view>

namespace cairn::corpus {

/// A character reference of HTML that has a name, such as "eacute;".
struct NamedReference {
  std::string_view name; ///< without "&"
  char32_t first = 0;
  char32_t second = 0; ///< 0: it stands for a single character
};

inline constexpr std::size_t longest_reference_name = 32;

/// The reference of that name, which ends in ";" but for the old ones such as
/// "amp"; null when there is none.
const NamedReference* named_reference(std::string_view name);

/// The reference with the longest name that `text` begins with; null when there
/// is none.
const NamedReference* longest_named_reference(std::string_view text);

} // namespace cairn::corpus
