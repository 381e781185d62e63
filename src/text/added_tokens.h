#pragma once

#include "text/vocabulary.h"

#include <cairn/text/tokenizer.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cairn::text {

/// A token that is found in the text itself, before any rule applies.
struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool in_text = true;      ///< looked for in texts; otherwise only decoded
  bool special = true;      ///< not part of what a reader should see
  bool single_word = false; ///< only where no letter or digit touches it
  bool strip_left = false;  ///< takes the white space before it along
  bool strip_right = false;
  bool normalized = false; ///< looked for after normalization
};

/// Finds added tokens in texts: the leftmost first, and of those that start
/// together the longest.
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);
  AddedTokens(AddedTokens&&) = default;
  AddedTokens& operator=(AddedTokens&&) = default;

  bool empty() const { return tokens_.empty(); }
  const std::vector<AddedToken>& tokens() const { return tokens_; }

  struct Match {
    std::size_t begin = 0; ///< with white space that it takes along
    std::size_t end = 0;
    TokenId id = -1; ///< -1 when there is none; `begin` is the text's end then
  };
  /// The first match at or after `from`.
  Match find(std::string_view text, std::size_t from) const;

  /// Calls `plain(view)` for the text between tokens, where there is any, and
  /// `token(id)` for the tokens, in order.
  template <class Plain, class Token>
  void split(std::string_view text, Plain&& plain, Token&& token) const {
    for (std::size_t at = 0; at < text.size();) {
      const Match match = find(text, at);
      if (match.begin > at) {
        plain(text.substr(at, match.begin - at));
      }
      if (match.id >= 0) {
        token(match.id);
      }
      at = match.end;
    }
  }

 private:
  const AddedToken* longest_at(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;
  /// By content, into tokens_, whose strings are not touched any more.
  std::unordered_map<std::string_view, std::size_t> by_content_;
  std::array<bool, 256> starts_{}; ///< bytes that some token starts with
  int only_start_ = -1;            ///< that byte, when there is one only
  std::array<std::vector<std::size_t>, 256> lengths_; ///< longest first
};

/// Puts T5's sentinels <extra_id_0>, <extra_id_1>, … after the vocabulary.
void add_sentinels(
    int count,
    bool in_text,
    Vocabulary& vocabulary,
    std::vector<AddedToken>& added,
    SpecialIds& special);

} // namespace cairn::text
