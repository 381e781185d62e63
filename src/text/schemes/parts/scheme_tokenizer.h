#pragma once

#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::text {

/// The answers that are the same for all schemes with a vocabulary and added
/// tokens.
template <typename Scheme>
class SchemeTokenizer : public Tokenizer {
 public:
  std::size_t vocab_size() const override { return scheme_.vocabulary.size(); }
  std::string token(TokenId id) const override {
    return std::string(scheme_.vocabulary.token(id));
  }
  std::optional<TokenId> find(std::string_view token) const override {
    return scheme_.vocabulary.find(token);
  }
  const SpecialIds& special() const override { return scheme_.special; }
  bool is_special(TokenId id) const override {
    return Tokenizer::is_special(id) ||
        (id >= 0 && static_cast<std::size_t>(id) < special_.size() &&
         special_[static_cast<std::size_t>(id)]);
  }

 protected:
  explicit SchemeTokenizer(Scheme scheme)
      : scheme_(std::move(scheme)), special_(scheme_.vocabulary.size()) {
    for (const auto& token : scheme_.added) {
      special_[static_cast<std::size_t>(token.id)] = token.special;
    }
  }

  Scheme scheme_;

 private:
  std::vector<bool> special_; ///< by id
};

} // namespace cairn::text
