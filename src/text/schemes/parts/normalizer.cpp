#include "text/schemes/parts/normalizer.h"

#include "base/internal/utf8.h"

#include <cairn/base/error.h>

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <cstdint>
#include <limits>
#include <utility>

namespace cairn::text {
namespace {

const icu::Normalizer2& normalizer(NormalizerStep step) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (step) {
    case NormalizerStep::nfd:
      found = icu::Normalizer2::getNFDInstance(error);
      break;
    case NormalizerStep::nfkc:
      found = icu::Normalizer2::getNFKCInstance(error);
      break;
    case NormalizerStep::nfkd:
      found = icu::Normalizer2::getNFKDInstance(error);
      break;
    default:
      found = icu::Normalizer2::getNFCInstance(error);
  }
  if (U_FAILURE(error)) {
    throw InternalError(
        {.what = "ICU has no normalization data",
         .values = u_errorName(error)});
  }
  return *found;
}

template <class Append>
std::string each_character(std::string_view text, Append&& append) {
  std::string result;
  result.reserve(text.size());
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    const Utf8Char c = decode_utf8(at, end);
    append(result, c.code_point);
    at += c.length;
  }
  return result;
}

/// Applies one step to well-formed text.
std::string apply(std::string_view text, NormalizerStep step) {
  switch (step) {
    case NormalizerStep::lowercase:
      return each_character(text, append_lowercase);
    case NormalizerStep::strip_accents:
      return each_character(text, [](std::string& result, char32_t c) {
        if (!is_accent(c)) {
          append_utf8(result, c);
        }
      });
    default:
      break;
  }
  if (text.size() > std::numeric_limits<std::int32_t>::max()) {
    throw DataError(
        {.what = "a text without any ASCII character is too long to normalize",
         .values = std::to_string(text.size()) + " bytes"});
  }
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  UErrorCode error = U_ZERO_ERROR;
  normalizer(step).normalizeUTF8(
      0,
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())),
      sink,
      nullptr,
      error);
  if (U_FAILURE(error)) {
    throw DataError(
        {.what = "ICU cannot normalize a text", .values = u_errorName(error)});
  }
  return result;
}

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) {
      return false;
    }
  }
  return true;
}

} // namespace

std::string_view normalize(
    std::string_view text,
    const std::vector<NormalizerStep>& steps,
    std::string& buffer) {
  for (const NormalizerStep step : steps) {
    if (step != NormalizerStep::lowercase && is_ascii(text)) {
      continue;
    }
    std::string next;
    next.reserve(text.size());
    for_each_utf8_run(
        text,
        [&](std::string_view run) {
          // Works on a part at a time to save memory. Parts are cut before an
          // ASCII character, which does not interact with the text before it.
          constexpr std::size_t most = std::size_t{1} << 20;
          while (run.size() > most) {
            std::size_t cut = most;
            while (cut < run.size() &&
                   static_cast<unsigned char>(run[cut]) >= 0x80) {
              ++cut;
            }
            next += apply(run.substr(0, cut), step);
            run.remove_prefix(cut);
          }
          next += apply(run, step);
        },
        [&](std::string_view bytes) { next += bytes; });
    buffer = std::move(next);
    text = buffer;
  }
  return text;
}

void append_lowercase(std::string& text, char32_t c) {
  if (c == 0x130) { // the only one that becomes two characters
    text += "i\u0307";
    return;
  }
  append_utf8(text, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
}

bool is_accent(char32_t c) {
  return u_charType(static_cast<UChar32>(c)) == U_NON_SPACING_MARK;
}

} // namespace cairn::text
