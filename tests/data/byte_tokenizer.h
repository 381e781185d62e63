#pragma once

#include <cairn/base/error.h>
#include <cairn/text/tokenizer.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::data::fixtures {

/// RoBERTa's special ids 0 to 3, then a token for each byte, the mask last.
class ByteTokenizer : public text::Tokenizer {
 public:
  static constexpr text::TokenId first_byte = 4;
  static constexpr text::TokenId mask = 260;

  ByteTokenizer() {
    special_.begin = 0;
    special_.pad = 1;
    special_.end = 2;
    special_.unknown = 3;
    special_.mask = mask;
  }

  text::SpecialIds& change() { return special_; }

  std::unique_ptr<text::Encoder> make_encoder() const override {
    return std::make_unique<ByteEncoder>();
  }
  std::string decode(std::span<const text::TokenId> ids) const override {
    std::string bytes;
    for (const text::TokenId id : ids) {
      bytes += token(id);
    }
    return bytes;
  }
  std::size_t vocab_size() const override { return mask + 1; }
  std::string token(text::TokenId id) const override {
    if (id < first_byte || id >= mask) {
      throw DataError({.what = "no byte"});
    }
    return {static_cast<char>(id - first_byte)};
  }
  std::optional<text::TokenId> find(std::string_view) const override {
    return std::nullopt;
  }
  const text::SpecialIds& special() const override { return special_; }

 private:
  struct ByteEncoder : text::Encoder {
    void encode(
        std::string_view text,
        std::vector<text::TokenId>& ids,
        const text::Portions& portions) override {
      for (const char c : text) {
        ids.push_back(first_byte + static_cast<unsigned char>(c));
        portions.offer(ids);
      }
    }
  };
  text::SpecialIds special_;
};

} // namespace cairn::data::fixtures
