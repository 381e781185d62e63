#include "evaluate/result_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cairn::evaluate {

std::string result_heading(std::string_view task) {
  return fmt::format(" validation results on {} | ", task);
}

std::string result_number(double value) {
  return fmt::format("{:.4E}", value);
}

std::string python_number(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) {
    text += ".0";
  }
  return text;
}

double capped_perplexity(double loss) {
  return std::isnan(loss) ? loss : std::exp(std::min(20.0, loss));
}

} // namespace cairn::evaluate
