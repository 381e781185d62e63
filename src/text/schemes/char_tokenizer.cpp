#include "text/schemes/char_tokenizer.h"

#include "base/internal/utf8.h"
#include "text/schemes/char_vocabulary.h"

#include <cairn/base/error.h>
#include <cairn/base/mapped_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::text {
namespace {

class CharTokenizer final : public Tokenizer {
 public:
  explicit CharTokenizer(CharVocabulary vocabulary)
      : characters_(std::move(vocabulary.characters)) {}

  std::unique_ptr<Encoder> make_encoder() const override;

  std::string decode(std::span<const TokenId> ids) const override {
    std::string text;
    for (const TokenId id : ids) {
      text += token(id);
    }
    return text;
  }

  std::size_t vocab_size() const override { return characters_.size(); }

  std::string token(TokenId id) const override {
    if (id < 0 || static_cast<std::size_t>(id) >= vocab_size()) {
      throw DataError(
          {.what = fmt::format("the vocabulary has no id {}", id),
           .values = fmt::format("{} ids", vocab_size())});
    }
    std::string text;
    append_utf8(text, characters_[static_cast<std::size_t>(id)]);
    return text;
  }

  std::optional<TokenId> find(std::string_view token) const override {
    if (token.empty()) {
      return std::nullopt;
    }
    const auto c = decode_utf8(token.data(), token.data() + token.size());
    return c.length == token.size() ? find(c.code_point) : std::nullopt;
  }

  std::optional<TokenId> find(char32_t c) const {
    const auto at = std::lower_bound(characters_.begin(), characters_.end(), c);
    if (at == characters_.end() || *at != c) {
      return std::nullopt;
    }
    return static_cast<TokenId>(at - characters_.begin());
  }

  const SpecialIds& special() const override { return special_; }

 private:
  std::u32string characters_;
  SpecialIds special_; ///< always empty
};

class CharEncoder final : public Encoder {
 public:
  explicit CharEncoder(const CharTokenizer& tokenizer) : tokenizer_(tokenizer) {
    for (char32_t c = 0; c < ascii_.size(); ++c) {
      ascii_[c] = tokenizer.find(c).value_or(-1);
    }
  }

  void encode(
      std::string_view text,
      std::vector<TokenId>& ids,
      const Portions& portions) override {
    const char* const end = text.data() + text.size();
    for (const char* at = text.data(); at != end;) {
      const Utf8Char c = decode_utf8(at, end);
      const TokenId id = c.code_point < ascii_.size()
          ? ascii_[c.code_point]
          : tokenizer_.find(c.code_point).value_or(-1);
      if (id < 0) {
        refuse(c, at - text.data());
      }
      ids.push_back(id);
      portions.offer(ids);
      at += c.length;
    }
  }

 private:
  [[noreturn]] static void refuse(Utf8Char c, std::ptrdiff_t at) {
    throw DataError(
        {.what = c.valid()
             ? fmt::format(
                   "the character U+{:04X} is not in the vocabulary",
                   static_cast<std::uint32_t>(c.code_point))
             : "a byte is not UTF-8, so that it has no character",
         .values = fmt::format("byte {} of the text", at)});
  }

  const CharTokenizer& tokenizer_;
  std::array<TokenId, 128> ascii_{};
};

std::unique_ptr<Encoder> CharTokenizer::make_encoder() const {
  return std::make_unique<CharEncoder>(*this);
}

} // namespace

std::shared_ptr<const Tokenizer> load_char_tokenizer(
    const TokenizerOptions& options) {
  if (options.vocab_file.extension() == ".json") {
    return std::make_shared<CharTokenizer>(
        CharVocabulary::load(options.vocab_file));
  }
  const MappedFile file(options.vocab_file, MappedFile::Advice::sequential);
  const auto bytes = file.bytes();
  const std::string_view text(
      reinterpret_cast<const char*>(bytes.data()),
      bytes.size());
  return std::make_shared<CharTokenizer>(
      CharVocabulary::of(text, options.vocab_file.string()));
}

} // namespace cairn::text
