#include "text/schemes/bpe/regex_splitter.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>

namespace cairn::text {
namespace {

// \s and \w mean other characters in PCRE2 than in Hugging Face's regex
// libraries (White_Space; alphabetic, marks, decimal digits, connectors and
// joiners), so both classes are written out.
constexpr std::string_view space_class =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029})"
    R"(\x{202f}\x{205f}\x{3000})";
constexpr std::string_view word_class =
    R"(\p{L}\p{Nl}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9})"
    R"(\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

std::string with_unicode_classes(std::string_view pattern) {
  std::string result;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\' || i + 1 == pattern.size()) {
      in_class = in_class ? c != ']' : c == '[';
      result += c;
      continue;
    }
    const char escaped = pattern[++i];
    const bool space = escaped == 's' || escaped == 'S';
    const bool word = escaped == 'w' || escaped == 'W';
    const bool negated = escaped == 'S' || escaped == 'W';
    if ((!space && !word) || (in_class && negated)) {
      result += c;
      result += escaped;
      continue;
    }
    const std::string_view members = space ? space_class : word_class;
    result += in_class ? "" : negated ? "[^" : "[";
    result += members;
    result += in_class ? "" : "]";
  }
  return result;
}

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

} // namespace

RegexScratch::RegexScratch()
    : data_(pcre2_match_data_create(1, nullptr)),
      context_(pcre2_match_context_create(nullptr)),
      stack_(pcre2_jit_stack_create(32 << 10, 16 << 20, nullptr)) {
  if (data_ == nullptr || context_ == nullptr) {
    throw std::bad_alloc();
  }
  // Null on a machine without the JIT compiler.
  if (stack_ != nullptr) {
    pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
}

RegexScratch::~RegexScratch() {
  pcre2_match_data_free(data_);
  pcre2_match_context_free(context_);
  pcre2_jit_stack_free(stack_);
}

RegexSplitter::RegexSplitter(
    std::string_view pattern,
    Keep keep,
    const std::string& where)
    : keep_(keep) {
  const std::string own = with_unicode_classes(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(
      pcre2_compile(
          reinterpret_cast<PCRE2_SPTR>(own.data()),
          own.size(),
          PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
          &error,
          &offset,
          nullptr),
      [](pcre2_code* code) { pcre2_code_free(code); });
  if (!code_) {
    throw DataError(
        {.what =
             fmt::format("the pattern cannot be read: {}", error_text(error)),
         .where = where,
         .values = fmt::format("\"{}\"", pattern)});
  }
  // This fails on a machine without the JIT compiler; matching is then slower.
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
}

std::pair<std::size_t, std::size_t> RegexSplitter::match(
    std::string_view text,
    std::size_t from,
    const RegexScratch& scratch) const {
  for (std::size_t at = from; at < text.size();) {
    const int found = pcre2_match(
        code_.get(),
        reinterpret_cast<PCRE2_SPTR>(text.data()),
        text.size(),
        at,
        PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK,
        scratch.data(),
        scratch.context());
    if (found == PCRE2_ERROR_NOMATCH) {
      break;
    }
    if (found < 0) {
      throw DataError(
          {.what = fmt::format(
               "a text cannot be cut by the tokenizer's pattern: {}",
               error_text(found))});
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(scratch.data());
    // \K and lookbehind can produce a match that is empty or starts before
    // `from`.
    if (bounds[0] >= from && bounds[1] > bounds[0]) {
      return {bounds[0], bounds[1]};
    }
    at = std::max(
        bounds[1],
        at + decode_utf8(text.data() + at, text.data() + text.size()).length);
  }
  return {text.size(), text.size()};
}

} // namespace cairn::text
