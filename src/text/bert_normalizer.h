#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

struct UNormalizer2;

namespace cairn::text {

/// What BERT does to a text before it is cut into words.
struct BertNormalizerSteps {
  bool clean_text = true;    ///< no control characters; white space is a space
  bool chinese_chars = true; ///< spaces around CJK ideographs
  bool strip_accents = true; ///< decompose (NFD), drop what has no width (Mn)
  bool lowercase = true;
};

/// Follows Hugging Face's Rust code; Google's and Hugging Face's Python differ
/// in rare characters: they drop unassigned code points with the control
/// characters, and write a final sigma at the end of words.
class BertNormalizer {
 public:
  explicit BertNormalizer(BertNormalizerSteps steps);

  /// Appends to `result`, character by character. A byte that is not UTF-8 is
  /// dropped, as is the replacement character that others would have put for
  /// it.
  void normalize(std::string_view text, std::string& result) const;

 private:
  void clean(char32_t c, std::string& result) const;
  void decompose(char32_t c, std::string& result) const;
  void append(char32_t c, std::string& result) const;

  BertNormalizerSteps steps_;
  /// What an ASCII character becomes; -1 where it is dropped.
  std::array<signed char, 128> ascii_{};
  const UNormalizer2* nfd_;
};

} // namespace cairn::text
