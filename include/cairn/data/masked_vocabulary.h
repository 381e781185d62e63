#pragma once

#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::data {

/// The facts about a vocabulary that masking needs, as plain data.
struct MaskedVocabulary {
  text::SpecialIds special;
  /// 1 for each id whose token continues a word, such as WordPiece's "##ing".
  std::vector<std::uint8_t> continues_word;

  std::size_t size() const noexcept { return continues_word.size(); }

  static MaskedVocabulary of(const text::Tokenizer& tokenizer);
};

} // namespace cairn::data
