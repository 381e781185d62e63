#include <cairn/data/token_masker.h>

namespace cairn::data {

MaskedVocabulary MaskedVocabulary::of(const text::Tokenizer& tokenizer) {
  MaskedVocabulary vocabulary{
      .special = tokenizer.special(),
      .continues_word = std::vector<std::uint8_t>(tokenizer.vocab_size())};
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    vocabulary.continues_word[id] =
        tokenizer.token(static_cast<text::TokenId>(id)).starts_with("##");
  }
  return vocabulary;
}

} // namespace cairn::data
