#include "text/schemes/null_tokenizer.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

namespace cairn::text {
namespace {

class NullTokenizer final : public Tokenizer {
 public:
  NullTokenizer(std::size_t size, SpecialIds special)
      : size_(size), special_(std::move(special)) {}

  std::unique_ptr<Encoder> make_encoder() const override;

  std::string decode(std::span<const TokenId> ids) const override {
    std::string text;
    for (const TokenId id : ids) {
      check(id);
      text += text.empty() ? "" : " ";
      text += fmt::to_string(id);
    }
    return text;
  }

  std::size_t vocab_size() const override { return size_; }

  std::string token(TokenId id) const override {
    check(id);
    return fmt::to_string(id);
  }

  std::optional<TokenId> find(std::string_view token) const override {
    TokenId id = 0;
    const char* end = token.data() + token.size();
    const auto [rest, error] = std::from_chars(token.data(), end, id);
    if (error != std::errc() || rest != end || !has(id)) {
      return std::nullopt;
    }
    return id;
  }

  const SpecialIds& special() const override { return special_; }

 private:
  bool has(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < size_;
  }
  void check(TokenId id) const {
    if (!has(id)) {
      throw DataError(
          {.what = fmt::format("the vocabulary has no id {}", id),
           .values = fmt::format("{} ids", size_)});
    }
  }

  std::size_t size_;
  SpecialIds special_;
};

class NullEncoder final : public Encoder {
 public:
  explicit NullEncoder(const NullTokenizer& tokenizer)
      : tokenizer_(tokenizer) {}

  void encode(
      std::string_view text,
      std::vector<TokenId>& ids,
      const Portions& portions) override {
    constexpr std::string_view spaces = " \t\r\n";
    for (auto at = text.find_first_not_of(spaces);
         at != std::string_view::npos;) {
      const auto end = std::min(text.find_first_of(spaces, at), text.size());
      const std::string_view word = text.substr(at, end - at);
      const auto id = tokenizer_.find(word);
      if (!id) {
        throw DataError(
            {.what = fmt::format(
                 "\"{}\" is not an id of NullTokenizer",
                 word.substr(0, 40)),
             .values = fmt::format("{} ids", tokenizer_.vocab_size()),
             .remedy = "its texts are whole numbers with spaces between"});
      }
      ids.push_back(*id);
      portions.offer(ids);
      at = text.find_first_not_of(spaces, end);
    }
  }

 private:
  const NullTokenizer& tokenizer_;
};

std::unique_ptr<Encoder> NullTokenizer::make_encoder() const {
  return std::make_unique<NullEncoder>(*this);
}

} // namespace

std::shared_ptr<const Tokenizer> load_null_tokenizer(
    const TokenizerOptions& options) {
  constexpr std::size_t most = std::numeric_limits<TokenId>::max();
  if (options.vocab_size == 0 || options.vocab_size > most) {
    throw ConfigError(
        {.what = options.vocab_size == 0
             ? std::string("NullTokenizer needs a vocabulary size")
             : fmt::format("--vocab-size {} is too large", options.vocab_size),
         .remedy = fmt::format("give --vocab-size from 1 to {}", most)});
  }
  SpecialIds special;
  special.end_of_document =
      options.null_eod.value_or(static_cast<TokenId>(options.vocab_size - 1));
  special.end = special.end_of_document;
  if (options.null_pad != -1) { // Megatron's flag for "no padding"
    special.pad = options.null_pad;
  }
  return std::make_shared<NullTokenizer>(
      options.vocab_size,
      std::move(special));
}

} // namespace cairn::text
