#include "config/table/number_text.h"

#include "base/internal/trimmed.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace cairn::config {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

} // namespace

bool is_json_number(std::string_view text) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t start = i;
    while (i < text.size() && is_digit(text[i])) {
      ++i;
    }
    return i - start;
  };
  if (i < text.size() && text[i] == '-') {
    ++i;
  }
  const std::size_t start = i;
  const std::size_t whole = digits();
  if (whole == 0 || (whole > 1 && text[start] == '0')) {
    return false;
  }
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (digits() == 0) {
      return false;
    }
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) {
      ++i;
    }
    if (digits() == 0) {
      return false;
    }
  }
  return i == text.size();
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  text = trimmed(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') {
    text.remove_prefix(1);
  }
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end) {
    return value;
  }
  if (error == std::errc::result_out_of_range) {
    return std::nullopt;
  }
  const auto real = parse_real(text);
  return real ? integral(*real) : std::nullopt;
}

std::optional<double> parse_real(std::string_view text) {
  text = trimmed(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') {
    text.remove_prefix(1);
  }
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> integral(double value) {
  // 2^63 itself is one too many; -2^63 is fine.
  if (!(value >= -0x1p63 && value < 0x1p63) || value != std::floor(value)) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(value);
}

std::string number_text(double value) {
  return fmt::format("{}", value);
}

} // namespace cairn::config
