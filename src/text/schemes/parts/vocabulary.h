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
  /// Makes a part of a vocabulary that has `ids` ids in all. Throws as above.
  Vocabulary(
      const std::vector<Entry>& entries,
      std::size_t ids,
      const std::string& where);

  /// Adds a token after the last id unless it exists; returns its id.
  TokenId add(std::string_view token);
  /// Adds a token at an id that may lie past the end. Throws DataError when
  /// another token has the id or the token has another id.
  void add(std::string_view token, TokenId id, const std::string& where);

  std::size_t size() const { return tokens_.size(); } ///< holes included
  std::optional<TokenId> find(std::string_view token) const;
  /// The token of an id, empty for a hole. Throws DataError for an id outside.
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

/// Reads vocab.json of byte-level BPE: {"token": id, …}.
Vocabulary read_vocab_json(const std::filesystem::path& file);

/// Reads vocab.txt of WordPiece: one token per line, whose id is the line
/// number from 0. Of a token that occurs twice the last line counts.
Vocabulary read_vocab_txt(const std::filesystem::path& file);

} // namespace cairn::text
