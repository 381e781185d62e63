#pragma once

#include "base/utf8.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace cairn::text {

/// Where a text may be cut before SentencePiece sees it without a change of its
/// ids: between two characters that the model leaves as they are, and that
/// stand beside each other in none of its rules and none of its pieces. Only
/// the library's one id for a run of unknown characters is two then.
class SentencePieceCuts {
 public:
  /// `model` is a serialized model that the library has taken.
  explicit SentencePieceCuts(std::string_view model);

  /// The last such place, neither at the front nor at the end; 0 when there is
  /// none. A part that begins with a plain space must be encoded without that
  /// space and with the model's dummy prefix, any other without a dummy prefix.
  std::size_t last(std::string_view text) const;

  /// Whether the model puts a space before every text.
  bool dummy_prefix() const { return dummy_prefix_; }

 private:
  void read_piece(std::string_view message);
  void read_rules(std::string_view charsmap);
  void read_rule(std::string_view source);
  bool may_cut(std::string_view text, std::size_t at) const;

  bool possible_ = true; ///< at all
  bool dummy_prefix_ = true;
  std::unordered_set<std::uint64_t> pieces_;  ///< neighbours in pieces
  std::unordered_set<char32_t> changed_;      ///< by a rule for it alone
  std::unordered_set<std::uint64_t> sources_; ///< neighbours in rules
};

} // namespace cairn::text
