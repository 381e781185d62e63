#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::corpus {

struct CharacterReference {
  char32_t code;
  std::size_t length; ///< including "&" and ";"
};

/// The reference that `text` begins with: "&eacute;", "&#233;", "&#xE9;". Empty
/// when there is none, when the name or number is unknown, or when it stands
/// for a control character other than tab and line feed.
std::optional<CharacterReference> reference_at(std::string_view text);

/// `text` with every reference replaced by its character.
std::string decode_references(std::string_view text);

/// The Windows-1252 character of `byte`, 0x80 to 0x9f, which is what references
/// and text with such numbers mean; `byte` itself where Windows-1252 has no
/// character.
char32_t windows_1252(unsigned byte);

} // namespace cairn::corpus
