#pragma once

#include "text/hash_bytes.h"
#include "text/schemes/parts/vocabulary.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::text {

/// The pairs of tokens that become one, and their order: a flat hash table
/// keyed by (left id, right id).
class MergeTable {
 public:
  /// The rank in the upper half and the merged id in the lower half, so that
  /// the smaller value goes first. `none` for a pair that is not merged.
  using Merge = std::uint64_t;
  static constexpr Merge none = std::numeric_limits<Merge>::max();

  static constexpr std::uint32_t rank(Merge merge) {
    return static_cast<std::uint32_t>(merge >> 32);
  }
  static constexpr TokenId merged(Merge merge) {
    return static_cast<TokenId>(merge & 0x7fffffff);
  }

  struct Rule {
    TokenId left = 0;
    TokenId right = 0;
    TokenId merged = 0;
    std::int64_t rank = -1; ///< -1: its place among the rules
  };

  /// Takes the rules in order of rank; several may share one. Of rules for the
  /// same pair the first wins.
  explicit MergeTable(std::span<const Rule> rules);

  Merge find(TokenId left, TokenId right) const {
    const std::uint64_t wanted = key(left, right);
    for (std::size_t at = home(wanted);; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.key == wanted) {
        return slot.merge;
      }
      if (slot.key == free) {
        return none;
      }
    }
  }

 private:
  struct Slot {
    std::uint64_t key;
    Merge merge;
  };
  static constexpr std::uint64_t free = ~std::uint64_t{0};

  static std::uint64_t key(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(left) << 32 |
        static_cast<std::uint32_t>(right);
  }
  std::size_t home(std::uint64_t key) const {
    return (key * 0x9e3779b97f4a7c15) >> shift_;
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  int shift_ = 0;
};

/// Reads merges.txt: two tokens per line, the most important pair first;
/// "#version" lines are skipped. Throws DataError, with file and line, for a
/// line that is not two tokens or names a token that the vocabulary lacks.
std::vector<MergeTable::Rule> read_merges_txt(
    const std::filesystem::path& file,
    const Vocabulary& vocabulary);

/// Turns pairs of tokens into rules, in the order of their ranks.
class MergeRules {
 public:
  MergeRules(const Vocabulary& vocabulary, const std::filesystem::path& file)
      : vocabulary_(vocabulary), file_(file) {}

  /// Throws DataError with the file and, unless it is 0, the line, when the
  /// vocabulary lacks a token.
  void add(std::string_view left, std::string_view right, std::size_t line);
  std::vector<MergeTable::Rule> take() { return std::move(rules_); }

 private:
  TokenId find(std::string_view token, std::size_t line) const;

  const Vocabulary& vocabulary_;
  const std::filesystem::path& file_;
  std::vector<MergeTable::Rule> rules_;
  std::string merged_;
};

} // namespace cairn::text
