#include "monitor/internal/step_progress.h"

#include "monitor/files/python_number.h"

#include <fmt/format.h>

namespace cairn::monitor {
namespace {

std::string momentum_text(const std::vector<double>& momentum) {
  if (momentum.size() < 2) {
    return python_number(momentum.empty() ? 0.0 : momentum.front());
  }
  std::string text;
  for (const double value : momentum) {
    text += (text.empty() ? "(" : ", ") + python_number(value);
  }
  return text + ")";
}

} // namespace

std::string to_string(const StepProgress& progress) {
  std::string rates;
  std::string momenta;
  for (const GroupProgress& group : progress.groups) {
    const char* separator = rates.empty() ? "" : ", ";
    rates += separator + python_number(group.learning_rate);
    momenta += separator + momentum_text(group.momentum);
  }
  return fmt::format(
      "step={}, skipped={}, lr=[{}], mom=[{}]",
      progress.step,
      progress.skipped,
      rates,
      momenta);
}

} // namespace cairn::monitor
