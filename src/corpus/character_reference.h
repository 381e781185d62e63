#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::corpus {

struct CharacterReference {
  char32_t code;
  std::size_t length; ///< of the reference, "&" and ";" included
};

/// The reference that `text` begins with: "&eacute;", "&#233;", "&#xE9;". None
/// when there is none, when nothing has that name or number, or when it stands
/// for a control character other than tab and line feed.
std::optional<CharacterReference> reference_at(std::string_view text);

/// `text` with every reference replaced by what it stands for.
std::string decode_references(std::string_view text);

/// What byte `byte`, 0x80 to 0x9f, is in Windows-1252, which is what references
/// and text with such numbers mean; the number itself where that has no
/// character.
char32_t windows_1252(unsigned byte);

} // namespace cairn::corpus
