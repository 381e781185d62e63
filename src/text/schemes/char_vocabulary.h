#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace cairn::text {

/// A character-level vocabulary: the characters of a text, each once, sorted by
/// code point. The id of a character is its index.
struct CharVocabulary {
  std::u32string characters;

  /// Collects the characters of `text`. Throws DataError, which calls the text
  /// `name`, when the text is empty or not UTF-8.
  static CharVocabulary of(std::string_view text, const std::string& name);

  /// Reads {"type": "CharTokenizer", "characters": "\n !abc…"}, as save()
  /// writes it.
  static CharVocabulary load(const std::filesystem::path& file);
  void save(const std::filesystem::path& file) const;
};

} // namespace cairn::text
