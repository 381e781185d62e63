#include "monitor/files/python_number.h"

#include <fmt/format.h>

namespace cairn::monitor {

std::string python_number(double value) {
  std::string text = fmt::format("{}", value);
  // True for a whole number: no point, no exponent, no inf or nan.
  if (text.find_first_not_of("-0123456789") == text.npos) {
    text += ".0";
  }
  return text;
}

std::string rounded_python_number(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find('.') != text.npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') {
      text += '0';
    }
  }
  return text;
}

} // namespace cairn::monitor
