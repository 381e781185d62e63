#include "plan/measured_speeds.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

namespace cairn::plan {
namespace {

using Json = nlohmann::json;

/// Pairs of a size and a speed, in units of 10^9.
std::vector<SpeedAt> curve_from(const Json& list, const std::string& where) {
  const auto refuse = [&] {
    throw ConfigError(
        {.what = "is no list of pairs of a size and a speed, both above 0, by "
                 "growing size",
         .where = where});
  };
  std::vector<SpeedAt> curve;
  for (const Json& pair : list.is_array() ? list : Json::array({0})) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() ||
        !pair[1].is_number()) {
      refuse();
    }
    const SpeedAt point{
        giga * pair[0].get<double>(),
        giga * pair[1].get<double>()};
    if (point.size <= (curve.empty() ? 0 : curve.back().size) ||
        point.speed <= 0) {
      refuse();
    }
    curve.push_back(point);
  }
  return curve;
}

/// The sizes along an axis.
std::vector<double> axis_from(const Json& list, const std::string& where) {
  std::vector<double> axis;
  for (const Json& each : list.is_array() ? list : Json::array()) {
    const double size = each.is_number() ? each.get<double>() : 0;
    if (size <= (axis.empty() ? 0 : axis.back())) {
      axis.clear();
      break;
    }
    axis.push_back(size);
  }
  if (axis.empty()) {
    throw ConfigError(
        {.what = "is no list of growing sizes above 0", .where = where});
  }
  return axis;
}

/// Adds the speeds of lists within lists, one for each size of an axis. False
/// if they have another form.
bool add_speeds(const Json& list, std::size_t axis, SpeedGrid& grid) {
  if (axis == grid.axes.size()) {
    const double speed = list.is_number() ? list.get<double>() : 0;
    grid.speeds.push_back(tera * speed);
    return speed > 0 && speed < most_number;
  }
  return list.is_array() && list.size() == grid.axes[axis].size() &&
      std::ranges::all_of(list, [&](const Json& each) {
           return add_speeds(each, axis + 1, grid);
         });
}

SpeedGrid grid_from(
    JsonSection& section,
    const char* key,
    const std::vector<std::vector<double>>& axes) {
  SpeedGrid grid{.axes = axes};
  if (!add_speeds(section.value(key), 0, grid)) {
    throw ConfigError(
        {.what = fmt::format(
             "is no list of {} lists with a speed above 0 for each size",
             axes.front().size()),
         .where = section.at(key)});
  }
  return grid;
}

ProductSpeeds products_from(JsonSection section) {
  const auto tokens = axis_from(section.value("tokens"), section.at("tokens"));
  const auto widths = axis_from(section.value("widths"), section.at("widths"));
  const auto grid = [&](const char* key) {
    return grid_from(section, key, {tokens, widths, widths});
  };
  ProductSpeeds speeds{
      .forward = grid("forward"),
      .input_gradient = grid("input_gradient"),
      .weight_gradient = grid("weight_gradient")};
  section.refuse_others();
  return speeds;
}

AttentionSpeeds attention_from(JsonSection section) {
  const auto sequences =
      axis_from(section.value("sequences"), section.at("sequences"));
  const auto heads =
      axis_from(section.value("head_sizes"), section.at("head_sizes"));
  const auto grid = [&](const char* key) {
    return grid_from(section, key, {sequences, heads});
  };
  AttentionSpeeds speeds{
      .forward = grid("forward"),
      .backward = grid("backward"),
      .causal_forward = grid("causal_forward"),
      .causal_backward = grid("causal_backward")};
  section.refuse_others();
  return speeds;
}

/// A place between two sizes of an axis, in logarithms; outside of them at the
/// nearest one.
struct AxisPlace {
  std::size_t below = 0;
  double part = 0; ///< of the way to the next size
};

AxisPlace place_on(const std::vector<double>& axis, double size) {
  const auto above = std::ranges::lower_bound(axis, size);
  if (above == axis.begin()) {
    return {};
  }
  if (above == axis.end()) {
    return {.below = axis.size() - 1};
  }
  const double low = *std::prev(above);
  return {
      .below = static_cast<std::size_t>(std::distance(axis.begin(), above)) - 1,
      .part = std::log(size / low) / std::log(*above / low)};
}

/// The logarithm of the speed at sizes of the axes from `axis` on, in the part
/// of the grid for one size of each axis before; `row` is that part's number.
double log_speed(
    const SpeedGrid& grid,
    std::span<const double> sizes,
    std::size_t axis,
    std::size_t row) {
  if (axis == grid.axes.size()) {
    return std::log(grid.speeds[row]);
  }
  const auto [below, part] = place_on(grid.axes[axis], sizes[axis]);
  const auto at = [&](std::size_t number) {
    return log_speed(
        grid,
        sizes,
        axis + 1,
        row * grid.axes[axis].size() + number);
  };
  const double low = at(below);
  return part > 0 ? (1 - part) * low + part * at(below + 1) : low;
}

} // namespace

MeasuredSpeeds measured_from(JsonSection section) {
  const auto curve = [&](const char* key) {
    return curve_from(section.value(key), section.at(key));
  };
  MeasuredSpeeds measured{
      .sustained = section.number_or("sustained", 0.01, 1, 1),
      .traffic = curve("traffic"),
      .passes = section.number("passes", 0.01, most_number),
      .operator_seconds =
          1e-6 * section.number_or("operator_microseconds", 0, most_number, 0)};
  if (section.has("day")) {
    section.text("day"); // for people
  }
  if (section.has("products")) {
    measured.products = curve("products");
  }
  if (section.has("attention")) {
    measured.attention = curve("attention");
  }
  if (section.has("products_16bit")) {
    measured.products_16bit = products_from(section.section("products_16bit"));
  }
  if (section.has("products_8bit")) {
    measured.products_8bit = products_from(section.section("products_8bit"));
  }
  if (section.has("attention_16bit")) {
    measured.attention_16bit =
        attention_from(section.section("attention_16bit"));
  }
  section.refuse_others();
  return measured;
}

double speed_at(const std::vector<SpeedAt>& curve, double size) {
  const auto above = std::ranges::lower_bound(curve, size, {}, &SpeedAt::size);
  if (above == curve.begin() || above == curve.end()) {
    return above == curve.begin() ? curve.front().speed : curve.back().speed;
  }
  const SpeedAt& low = *std::prev(above);
  const double part =
      std::log(size / low.size) / std::log(above->size / low.size);
  return low.speed * std::pow(above->speed / low.speed, part);
}

double speed_at(const SpeedGrid& grid, std::span<const double> sizes) {
  return std::exp(log_speed(grid, sizes, 0, 0));
}

} // namespace cairn::plan
