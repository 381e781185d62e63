#pragma once

#include "base/internal/utf8.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace cairn::text {

/// Finds places where a text may be cut before SentencePiece sees it without
/// changing its ids. Such a place is between two characters that the model
/// leaves as they are, and that are neighbours in none of its rules and none of
/// its pieces. One difference remains: a run of unknown characters, which has
/// one id, gets two ids when it is cut.
class SentencePieceCuts {
 public:
  /// Reads a serialized model that the library has accepted.
  explicit SentencePieceCuts(std::string_view model);

  /// The last place where `text` may be cut, neither at its front nor at its
  /// end; 0 when there is none. A part that begins with a plain space must be
  /// encoded without that space and with the model's dummy prefix; any other
  /// part without a dummy prefix.
  std::size_t last(std::string_view text) const;

  /// True when the model puts a space before every text.
  bool dummy_prefix() const { return dummy_prefix_; }

 private:
  void read_piece(std::string_view message);
  void read_rules(std::string_view charsmap);
  void read_rule(std::string_view source);
  bool may_cut(std::string_view text, std::size_t at) const;

  bool possible_ = true; ///< false: this model allows no cuts
  bool dummy_prefix_ = true;
  std::unordered_set<std::uint64_t> pieces_;  ///< neighbours in pieces
  std::unordered_set<char32_t> changed_;      ///< characters changed by a rule
  std::unordered_set<std::uint64_t> sources_; ///< neighbours in rules
};

} // namespace cairn::text
