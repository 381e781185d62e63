#include "corpus/internal/language.h"

#include "base/internal/utf8.h"
#include "corpus/clean/common_words.h"
#include "corpus/clean/unicode.h"

#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace cairn::corpus {
namespace {

/// The languages in which each word is common.
class WordLanguages {
 public:
  WordLanguages() {
    const auto languages = common_words();
    static_assert(most_languages <= 32);
    for (std::size_t i = 0; i < languages.size(); ++i) {
      std::string_view words = languages[i].words;
      while (!words.empty()) {
        const std::size_t end = std::min(words.find(' '), words.size());
        words_[words.substr(0, end)] |= 1U << i;
        words.remove_prefix(std::min(end + 1, words.size()));
      }
    }
  }

  /// The languages of a word, one bit each.
  std::uint32_t of(std::string_view word) const {
    const auto found = words_.find(word);
    return found == words_.end() ? 0 : found->second;
  }

 private:
  std::unordered_map<std::string_view, std::uint32_t> words_;
};

struct Scripts {
  std::size_t letters = 0;
  std::size_t latin = 0;
  std::size_t cyrillic = 0;
  std::size_t han = 0;
  std::size_t kana = 0;
  std::size_t hangul = 0;
  std::size_t arabic = 0;
  std::size_t hebrew = 0;
  std::size_t greek = 0;
  std::size_t devanagari = 0;
  std::size_t thai = 0;

  void count(char32_t letter) {
    ++letters;
    if (letter < 0x250) {
      ++latin;
      return;
    }
    UErrorCode error = U_ZERO_ERROR;
    switch (::uscript_getScript(static_cast<UChar32>(letter), &error)) {
      case USCRIPT_LATIN:
        ++latin;
        break;
      case USCRIPT_CYRILLIC:
        ++cyrillic;
        break;
      case USCRIPT_HAN:
        ++han;
        break;
      case USCRIPT_HIRAGANA:
      case USCRIPT_KATAKANA:
        ++kana;
        break;
      case USCRIPT_HANGUL:
        ++hangul;
        break;
      case USCRIPT_ARABIC:
        ++arabic;
        break;
      case USCRIPT_HEBREW:
        ++hebrew;
        break;
      case USCRIPT_GREEK:
        ++greek;
        break;
      case USCRIPT_DEVANAGARI:
        ++devanagari;
        break;
      case USCRIPT_THAI:
        ++thai;
        break;
      default:
        break;
    }
  }

  /// The language implied by the script of most letters; empty for scripts that
  /// many languages share.
  std::string_view language() const {
    const auto most = [this](std::size_t part) { return 2 * part > letters; };
    if (most(han + kana)) {
      return 10 * kana > han ? "ja" : "zh"; // no Japanese text is without kana
    }
    return most(hangul)    ? "ko"
        : most(hebrew)     ? "he"
        : most(greek)      ? "el"
        : most(devanagari) ? "hi"
        : most(thai)       ? "th"
                           : "";
  }
};

/// The part of a text that is read; a text shows its language long before its
/// end.
constexpr std::size_t enough_bytes = 64 * 1024;

} // namespace

std::string_view language_of(std::string_view text) {
  static const WordLanguages languages_of;
  text = text.substr(0, enough_bytes);
  Scripts scripts;
  std::array<double, most_languages> score{};
  double words = 0;
  std::string word;
  const auto end_word = [&] {
    if (word.empty()) {
      return;
    }
    words += 1;
    // A word that several languages share says less about each.
    const std::uint32_t languages = languages_of.of(word);
    const double share = languages == 0 ? 0 : 1.0 / std::popcount(languages);
    for (std::uint32_t left = languages; left != 0; left &= left - 1) {
      score[static_cast<std::size_t>(std::countr_zero(left))] += share;
    }
    word.clear();
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const char32_t code = next_code_point(text, at);
    if (code < 0x80 ? ((code | 0x20) >= 'a' && (code | 0x20) <= 'z')
                    : ::u_isalpha(static_cast<UChar32>(code)) != 0) {
      scripts.count(code);
      append_utf8(
          word,
          static_cast<char32_t>(::u_tolower(static_cast<UChar32>(code))));
    } else {
      end_word();
    }
  }
  end_word();
  if (const std::string_view language = scripts.language(); !language.empty()) {
    return language;
  }
  const auto best = std::max_element(score.begin(), score.end());
  // A third or more of running text consists of these words; lists of names
  // have none.
  constexpr double least_share = 0.06;
  if (words == 0 || *best < least_share * words) {
    return "";
  }
  return common_words()[static_cast<std::size_t>(best - score.begin())].code;
}

std::span<const std::string_view> known_languages() {
  static const std::vector<std::string_view> codes = [] {
    std::vector<std::string_view> all{"el", "he", "hi", "ja", "ko", "th", "zh"};
    for (const auto& each : common_words()) {
      all.push_back(each.code);
    }
    std::sort(all.begin(), all.end());
    return all;
  }();
  return codes;
}

} // namespace cairn::corpus
