#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace cairn::text {

/// A character-level vocabulary: the characters of a text, each once, sorted by
/// code point; the id of one is its place.
struct CharVocabulary {
  std::u32string characters;

  /// Throws DataError, with `name` for the text's name, when it is empty or not
  /// UTF-8.
  static CharVocabulary of(std::string_view text, const std::string& name);

  /// {"type": "CharTokenizer", "characters": "\n !abc…"}, as save() writes it.
  static CharVocabulary load(const std::filesystem::path& file);
  void save(const std::filesystem::path& file) const;
};

} // namespace cairn::text
