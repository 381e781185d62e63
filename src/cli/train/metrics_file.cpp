#include "cli/train/metrics_file.h"

#include <nlohmann/json.hpp>

namespace cairn::cli {

std::optional<MetricsFile::Line> MetricsFile::next() {
  using nlohmann::json;
  while (const auto text = file_.next()) {
    const json object = json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object() || !object.contains("step") ||
        !object["step"].is_number_integer()) {
      continue;
    }
    const auto number = [&](const char* name) -> std::optional<double> {
      const auto found = object.find(name);
      return found != object.end() && found->is_number()
          ? std::optional(found->get<double>())
          : std::nullopt;
    };
    return Line{
        .step = object["step"],
        .loss = number("lm loss"),
        .validation_loss = number("validation lm loss"),
        .learning_rate = number("learning rate").value_or(0),
        .tokens_per_second = number("tokens per second").value_or(0)};
  }
  return std::nullopt;
}

} // namespace cairn::cli
