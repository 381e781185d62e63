#include "plan/speeds_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>

namespace {

using cairn::plan::SpeedGrid;
using Json = nlohmann::ordered_json;

/// A number with four digits.
Json rounded(double value) {
  return Json::parse(fmt::format("{:.4g}", value));
}

/// Sizes along an axis, which are whole numbers.
Json sizes(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double each : values) {
    list.push_back(std::llround(each));
  }
  return list;
}

/// The speeds in 10^12 a second, a list of lists for each axis but the last.
Json nested(const SpeedGrid& grid, std::size_t axis, std::size_t& next) {
  Json list = Json::array();
  for (std::size_t i = 0; i < grid.axes[axis].size(); ++i) {
    list.push_back(
        axis + 1 == grid.axes.size() ? rounded(grid.speeds[next++] / 1e12)
                                     : nested(grid, axis + 1, next));
  }
  return list;
}

Json nested(const SpeedGrid& grid) {
  std::size_t next = 0;
  return nested(grid, 0, next);
}

Json json_of(const cairn::plan::ProductSpeeds& speeds) {
  return {
      {"tokens", sizes(speeds.forward.axes[0])},
      {"widths", sizes(speeds.forward.axes[1])},
      {"forward", nested(speeds.forward)},
      {"input_gradient", nested(speeds.input_gradient)},
      {"weight_gradient", nested(speeds.weight_gradient)}};
}

Json json_of(const cairn::plan::AttentionSpeeds& speeds) {
  return {
      {"sequences", sizes(speeds.forward.axes[0])},
      {"head_sizes", sizes(speeds.forward.axes[1])},
      {"forward", nested(speeds.forward)},
      {"backward", nested(speeds.backward)},
      {"causal_forward", nested(speeds.causal_forward)},
      {"causal_backward", nested(speeds.causal_backward)}};
}

Json json_of(const std::vector<cairn::plan::SpeedAt>& curve) {
  Json list = Json::array();
  for (const auto& [size, speed] : curve) {
    list.push_back({rounded(size / 1e9), rounded(speed / 1e9)});
  }
  return list;
}

} // namespace

std::string json_of(
    const cairn::plan::MeasuredSpeeds& measured,
    const std::string& day) {
  Json json{{"day", day}};
  if (measured.products_16bit) {
    json["products_16bit"] = json_of(*measured.products_16bit);
  }
  if (measured.products_8bit) {
    json["products_8bit"] = json_of(*measured.products_8bit);
  }
  if (measured.attention_16bit) {
    json["attention_16bit"] = json_of(*measured.attention_16bit);
  }
  json["traffic"] = json_of(measured.traffic);
  json["passes"] = rounded(measured.passes);
  return Json{{"measured", json}}.dump();
}
