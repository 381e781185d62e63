#include "launch/internal/shell_quote.h"

namespace cairn::launch {

std::string shell_quote(std::string_view word) {
  constexpr std::string_view harmless =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "%+,-./:=@_";
  if (!word.empty() &&
      word.find_first_not_of(harmless) == std::string_view::npos) {
    return std::string(word);
  }
  std::string result = "'";
  for (const char c : word) {
    if (c == '\'') {
      result += "'\\''"; // no escapes inside single quotes
    } else {
      result += c;
    }
  }
  return result + "'";
}

std::string shell_join(const std::vector<std::string>& words) {
  std::string result;
  for (const std::string& word : words) {
    result += (result.empty() ? "" : " ") + shell_quote(word);
  }
  return result;
}

} // namespace cairn::launch
