#include "cli/train/typist.h"

#include "base/internal/utf8.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace cairn::cli {
namespace {

std::string without_controls(std::string_view text) {
  std::string kept;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text.data() + i, text.data() + text.size());
    const char32_t code = c.code_point;
    const bool control = (code < 0x20 && code != U'\n' && code != U'\t') ||
        (code >= 0x7f && code < 0xa0);
    if (!control) {
      kept += text.substr(i, c.length);
    }
    i += c.length;
  }
  return kept;
}

} // namespace

void print_text(std::string_view text) {
  const std::string whole = well_formed_utf8(text);
  fmt::print(
      "{}",
      ::isatty(STDOUT_FILENO) == 1 ? without_controls(whole) : whole);
  std::fflush(stdout);
}

void Typist::grow(std::string text) {
  text_ = std::move(text);
  constexpr std::string_view stand_in = "\xef\xbf\xbd";
  std::size_t end = unfinished_utf8(text_);
  while (std::string_view(text_).substr(0, end).ends_with(stand_in)) {
    end -= stand_in.size();
  }
  print_up_to(end);
}

void Typist::finish() {
  print_up_to(text_.size());
  fmt::print("\n");
}

void Typist::print_up_to(std::size_t end) {
  if (end > printed_) {
    print_text(std::string_view(text_).substr(printed_, end - printed_));
    printed_ = end;
  }
}

} // namespace cairn::cli
