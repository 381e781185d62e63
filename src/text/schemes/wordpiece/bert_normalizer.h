#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

struct UNormalizer2;

namespace cairn::text {

/// The steps that BERT takes before a text is cut into words.
struct BertNormalizerSteps {
  bool clean_text = true;    ///< drops control characters; white space -> ' '
  bool chinese_chars = true; ///< spaces around CJK ideographs
  bool strip_accents = true; ///< decompose (NFD), drop non-spacing marks (Mn)
  bool lowercase = true;
};

/// BERT's normalization as Hugging Face's Rust code does it. Google's and
/// Hugging Face's Python code differ in rare characters: they drop unassigned
/// code points along with the control characters, and write a final sigma at
/// the end of words.
class BertNormalizer {
 public:
  explicit BertNormalizer(BertNormalizerSteps steps);

  /// Appends the normalized text to `result`, character by character. Drops
  /// bytes that are not UTF-8, and also U+FFFD, which other programs put in
  /// place of such bytes.
  void normalize(std::string_view text, std::string& result) const;

 private:
  void clean(char32_t c, std::string& result) const;
  void decompose(char32_t c, std::string& result) const;
  void append(char32_t c, std::string& result) const;

  BertNormalizerSteps steps_;
  /// The result for each ASCII character; -1 where it is dropped.
  std::array<signed char, 128> ascii_{};
  const UNormalizer2* nfd_;
};

} // namespace cairn::text
