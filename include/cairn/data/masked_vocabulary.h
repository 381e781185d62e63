#pragma once

#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::data {

/// What masking asks of a vocabulary, as plain data.
struct MaskedVocabulary {
  text::SpecialIds special;
  /// For each id, 1 where the token continues a word: WordPiece's "##ing".
  std::vector<std::uint8_t> continues_word;

  std::size_t size() const noexcept { return continues_word.size(); }

  static MaskedVocabulary of(const text::Tokenizer& tokenizer);
};

} // namespace cairn::data
