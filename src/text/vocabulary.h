#pragma once

#include <cairn/text/tokenizer.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text {

/// Tokens and their ids, both ways.
class Vocabulary {
 public:
  struct Entry {
    std::string_view token;
    TokenId id = 0;
  };

  Vocabulary() = default;
  /// Throws DataError, with `where` for its place, for ids that are negative,
  /// far apart or given twice, and for a token given twice.
  Vocabulary(const std::vector<Entry>& entries, const std::string& where);
  /// The same for a part of a vocabulary of so many ids.
  Vocabulary(
      const std::vector<Entry>& entries,
      std::size_t ids,
      const std::string& where);

  /// Puts a token after the last id, unless it is there; gives its id.
  TokenId add(std::string_view token);
  /// Puts a token at an id that may lie past the end; throws DataError when
  /// either is taken by another.
  void add(std::string_view token, TokenId id, const std::string& where);

  std::size_t size() const { return tokens_.size(); } ///< holes included
  std::optional<TokenId> find(std::string_view token) const;
  /// Throws DataError for an id outside; a hole is an empty token.
  std::string_view token(TokenId id) const;
  /// Length in bytes of the longest token.
  std::size_t longest() const { return longest_; }

 private:
  void put(std::string_view token, TokenId id, const std::string& where);
  void insert(TokenId id);
  void rebuild(std::size_t slots);

  std::vector<std::string> tokens_;
  std::vector<bool> present_;
  std::vector<TokenId> slots_; ///< open addressing; -1 is free
  std::size_t used_ = 0;
  std::size_t longest_ = 0;
};

/// vocab.json of byte-level BPE: {"token": id, …}.
Vocabulary read_vocab_json(const std::filesystem::path& file);

/// vocab.txt of WordPiece: a token a line, its id the line's number from 0; of
/// a token that is there twice the last line counts.
Vocabulary read_vocab_txt(const std::filesystem::path& file);

} // namespace cairn::text
