#include "corpus/internal/language.h"

#include "base/internal/utf8.h"
#include "corpus/clean/unicode.h"

#include <cstdio> // CLD2's header uses FILE without it

#include <cld2/public/compact_lang_det.h>
#include <cld2/public/encodings.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace cairn::corpus {
namespace {

/// Codes of the languages that CLD2 recognized in nine of ten pieces of
/// software messages, and of Bosnian and Croatian, which it often takes for
/// each other. CLD2's tables have a few more.
constexpr std::array language_codes = std::to_array<std::string_view>(
    {"af", "ar", "az", "be", "bg", "bn", "bs", "ca", "cs", "cy", "da", "de",
     "dv", "el", "en", "es", "et", "eu", "fa", "fi", "fr", "ga", "gd", "gl",
     "gu", "he", "hi", "hr", "hu", "hy", "id", "is", "it", "ja", "ka", "kk",
     "km", "kn", "ko", "ku", "ky", "lg", "lo", "lt", "lv", "mg", "mk", "ml",
     "mr", "ms", "my", "ne", "nl", "no", "or", "pa", "pl", "pt", "ro", "ru",
     "rw", "si", "sk", "sl", "sq", "sr", "sv", "sw", "ta", "te", "tg", "th",
     "tl", "tr", "uk", "ur", "uz", "vi", "yi", "zh"});

/// The parts of a text that are read, because the whole would take most of the
/// time of cleaning: 1 KB from the start and 1 KB from the middle.
std::string telling_parts(std::string_view text) {
  constexpr std::size_t size = 1 << 10;
  if (text.size() <= 2 * size) {
    return std::string(text);
  }
  const auto part = [text](std::size_t from) {
    from = character_start(text, from);
    return text.substr(from, character_start(text, from + size) - from);
  };
  std::string parts(part(0));
  parts += ' ';
  parts += part(text.size() / 2);
  return parts;
}

/// CLD2's answer.
struct Detection {
  CLD2::Language language = CLD2::UNKNOWN_LANGUAGE;
  double score = 0;      ///< prose has 1000 or more
  std::size_t valid = 0; ///< size of the part that CLD2 takes for text
};

/// CLD2 reads one byte behind its input when the last character is of another
/// script than the text before it. In a std::string that byte is a zero.
Detection detect(const std::string& text) {
  const CLD2::CLDHints hints{
      .content_language_hint = nullptr,
      .tld_hint = nullptr,
      .encoding_hint = CLD2::UNKNOWN_ENCODING,
      .language_hint = CLD2::UNKNOWN_LANGUAGE};
  std::array<CLD2::Language, 3> languages{};
  std::array<int, 3> percents{};
  std::array<double, 3> scores{};
  int letters = 0;
  bool reliable = false;
  int valid = 0;
  const CLD2::Language language = CLD2::ExtDetectLanguageSummaryCheckUTF8(
      text.c_str(),
      static_cast<int>(text.size()),
      true,
      &hints,
      0,
      languages.data(),
      percents.data(),
      scores.data(),
      nullptr,
      &letters,
      &reliable,
      &valid);
  return {
      .language = language,
      .score = language == languages[0] ? scores[0] : 0,
      .valid = static_cast<std::size_t>(valid)};
}

/// CLD2's answer for a text that may hold what CLD2 refuses: bytes that are not
/// UTF-8, control characters and code points that are no characters.
Detection detect_anyway(std::string text) {
  Detection found = detect(text);
  if (found.valid < text.size()) {
    text = printable(text);
    found = detect(text);
  }
  if (found.valid < text.size()) {
    text.resize(found.valid);
    found = detect(text);
  }
  return found;
}

} // namespace

std::string_view language_of(std::string_view text) {
  const Detection found = detect_anyway(telling_parts(text));
  // Lists of names, files and addresses look a little like English.
  constexpr double least_english = 700;
  if (found.language == CLD2::ENGLISH && found.score < least_english) {
    return "";
  }
  std::string_view code = CLD2::LanguageCode(found.language);
  if (code == "iw") { // the code for Hebrew before 1989
    code = "he";
  } else if (code == "zh-Hant") {
    code = "zh";
  }
  const auto at =
      std::lower_bound(language_codes.begin(), language_codes.end(), code);
  return at != language_codes.end() && *at == code ? *at : "";
}

std::span<const std::string_view> known_languages() {
  return language_codes;
}

} // namespace cairn::corpus
