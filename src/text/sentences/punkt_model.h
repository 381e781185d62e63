#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace cairn::text {

/// Spellings of a word in the text that the model was trained on. The values
/// are those of NLTK's model files.
namespace written {
inline constexpr std::uint8_t upper_first_of_sentence = 2;
inline constexpr std::uint8_t upper_inside = 4;
inline constexpr std::uint8_t upper_somewhere = 8;
inline constexpr std::uint8_t lower_first_of_sentence = 16;
inline constexpr std::uint8_t lower_inside = 32;
inline constexpr std::uint8_t lower_somewhere = 64;
inline constexpr std::uint8_t upper =
    upper_first_of_sentence | upper_inside | upper_somewhere;
inline constexpr std::uint8_t lower =
    lower_first_of_sentence | lower_inside | lower_somewhere;
} // namespace written

/// Punkt's knowledge about a word. Words are in lower case; all numbers are the
/// word `##number##`.
struct PunktWord {
  std::uint32_t id = 0;
  std::uint8_t written = 0;     ///< flags from namespace `written`
  bool is_abbreviation = false; ///< listed without its last period
  bool starts_sentences = false;
};

/// The parameters that Punkt learns for a language.
class PunktModel {
 public:
  /// Parses JSON in the form of share/punkt/english.json, or lines with one
  /// abbreviation each. Throws DataError with the place for anything else.
  static PunktModel parse(const std::string& text, std::string_view name);
  static PunktModel english();

  /// The facts about a word; default values for an unknown word.
  const PunktWord& find(std::string_view word) const;

  /// True when the two words often stand together with a period between them
  /// that ends no sentence.
  bool belong_together(const PunktWord& first, const PunktWord& second) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view word) const {
      return std::hash<std::string_view>{}(word);
    }
  };

  void read_json(const std::string& text, std::string_view name);
  void read_rules(std::string_view text, std::string_view name);
  PunktWord& add(std::string_view word);

  std::unordered_map<std::string, PunktWord, Hash, std::equal_to<>> words_;
  std::unordered_set<std::uint64_t> pairs_; ///< pairs of word ids
};

} // namespace cairn::text
