#include "text/schemes/wordpiece/bert_normalizer.h"

#include "base/internal/utf8.h"
#include "text/schemes/parts/normalizer.h"

#include <cairn/base/error.h>

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/utf16.h>

namespace cairn::text {
namespace {

constexpr char32_t replacement = 0xfffd;

/// True for an ideograph that gets spaces around it: the blocks named CJK
/// Unified Ideographs with extensions A to E, and the compatibility ideographs.
bool is_chinese(char32_t c) {
  const auto in = [c](char32_t first, char32_t last) {
    return c >= first && c <= last;
  };
  return in(0x4e00, 0x9fff) || in(0x3400, 0x4dbf) || in(0x20000, 0x2a6df) ||
      in(0x2a700, 0x2b73f) || in(0x2b740, 0x2b81f) || in(0x2b920, 0x2ceaf) ||
      in(0xf900, 0xfaff) || in(0x2f800, 0x2fa1f);
}

bool is_control(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') {
    return false;
  }
  const auto category = U_GET_GC_MASK(static_cast<UChar32>(c));
  return (category & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) != 0;
}

} // namespace

BertNormalizer::BertNormalizer(BertNormalizerSteps steps) : steps_(steps) {
  UErrorCode error = U_ZERO_ERROR;
  nfd_ = unorm2_getNFDInstance(&error);
  if (U_FAILURE(error) != 0) {
    throw InternalError(
        {.what = "ICU has no normalization data",
         .values = u_errorName(error)});
  }
  for (char32_t c = 0; c < ascii_.size(); ++c) {
    std::string result;
    clean(c, result);
    ascii_[c] = result.empty() ? static_cast<signed char>(-1)
                               : static_cast<signed char>(result.front());
  }
}

void BertNormalizer::normalize(std::string_view text, std::string& result)
    const {
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    if (static_cast<unsigned char>(*at) < 0x80) {
      const signed char c = ascii_[static_cast<unsigned char>(*at)];
      if (c >= 0) {
        result.push_back(static_cast<char>(c));
      }
      ++at;
      continue;
    }
    const Utf8Char c = decode_utf8(at, end);
    clean(c.valid() ? c.code_point : replacement, result);
    at += c.length;
  }
}

void BertNormalizer::clean(char32_t c, std::string& result) const {
  if (steps_.clean_text) {
    if (c == 0 || c == replacement || is_control(c)) {
      return;
    }
    if (u_isUWhiteSpace(static_cast<UChar32>(c)) != 0) {
      c = ' ';
    }
  }
  if (steps_.chinese_chars && is_chinese(c)) {
    result += ' ';
    decompose(c, result);
    result += ' ';
  } else {
    decompose(c, result);
  }
}

/// Decomposes character by character. Putting marks in canonical order as well
/// would change nothing, since the marks that have an order are dropped.
void BertNormalizer::decompose(char32_t c, std::string& result) const {
  if (!steps_.strip_accents) {
    append(c, result);
    return;
  }
  std::array<UChar, 32> units{};
  UErrorCode error = U_ZERO_ERROR;
  const int32_t count = unorm2_getDecomposition(
      nfd_,
      static_cast<UChar32>(c),
      units.data(),
      static_cast<int32_t>(units.size()),
      &error);
  if (count < 0 || U_FAILURE(error) != 0) {
    append(c, result);
    return;
  }
  for (int32_t i = 0; i < count;) {
    UChar32 part = 0;
    U16_NEXT(units.data(), i, count, part);
    append(static_cast<char32_t>(part), result);
  }
}

void BertNormalizer::append(char32_t c, std::string& result) const {
  if (steps_.strip_accents && is_accent(c)) {
    return;
  }
  if (steps_.lowercase) {
    append_lowercase(result, c);
  } else {
    append_utf8(result, c);
  }
}

} // namespace cairn::text
