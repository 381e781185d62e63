#pragma once

#include "text/schemes/parts/vocabulary.h"

#include <cairn/text/tokenizer.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cairn::text {

/// A token that is searched for in the text itself, before any other rule.
struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool in_text = true;      ///< searched for in texts; else only decoded
  bool special = true;      ///< hidden from a reader
  bool single_word = false; ///< not beside a letter or digit
  bool strip_left = false;  ///< includes the white space before it
  bool strip_right = false;
  bool normalized = false; ///< searched for after normalization
};

/// Finds added tokens in texts. The leftmost match wins, and of matches that
/// start together the longest.
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);
  AddedTokens(AddedTokens&&) = default;
  AddedTokens& operator=(AddedTokens&&) = default;

  bool empty() const { return tokens_.empty(); }
  const std::vector<AddedToken>& tokens() const { return tokens_; }

  struct Match {
    std::size_t begin = 0; ///< includes the white space before the token
    std::size_t end = 0;
    /// Id of the token; -1 when there is no match, and then `begin` is the
    /// text's end.
    TokenId id = -1;
  };
  /// The first match at or after `from`.
  Match find(std::string_view text, std::size_t from) const;

  /// Calls `plain(view)` for every stretch of text between tokens that is not
  /// empty and `token(id)` for every token, in order.
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
  /// Index in tokens_ by content. The keys point into tokens_, which no longer
  /// changes.
  std::unordered_map<std::string_view, std::size_t> by_content_;
  std::array<bool, 256> starts_{}; ///< bytes that some token starts with
  /// The only first byte of a token, if there is just one.
  int only_start_ = -1;
  std::array<std::vector<std::size_t>, 256> lengths_; ///< longest first
};

/// Adds T5's sentinels <extra_id_0>, <extra_id_1>, … after the vocabulary.
void add_sentinels(
    int count,
    bool in_text,
    Vocabulary& vocabulary,
    std::vector<AddedToken>& added,
    SpecialIds& special);

} // namespace cairn::text
