#include "cli/plan/scaling_chart.h"

#include "base/internal/markup_escaped.h"
#include "cli/plan/plan_output.h"
#include "cli/program/text_table.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

namespace cairn::cli {
namespace {

using plan::Estimate;
using plan::ScalingPoint;

double throughput(const Estimate& each) {
  return each.tokens_per_second_per_gpu * static_cast<double>(each.layout.gpus);
}

/// "1.2k", "34M"
std::string scaled(double value) {
  return value >= 1e9  ? fmt::format("{:.3g}G", value / 1e9)
      : value >= 1e6   ? fmt::format("{:.3g}M", value / 1e6)
      : value >= 10000 ? fmt::format("{:.3g}k", value / 1e3)
                       : fmt::format("{:.4g}", value);
}

using Line = std::vector<std::pair<double, double>>; ///< GPUs, tokens a second

Line line_of(
    const std::vector<ScalingPoint>& points,
    const std::function<std::optional<double>(const ScalingPoint&)>& value) {
  Line line;
  for (const ScalingPoint& point : points) {
    if (const auto y = value(point)) {
      line.emplace_back(static_cast<double>(point.gpus), *y);
    }
  }
  return line;
}

/// Axes whose steps are powers of ten.
class Plot {
 public:
  Plot(double least_x, double most_x, double least_y, double most_y)
      : x_(std::log10(least_x)),
        x_span_(std::max(0.3, std::log10(most_x) - x_)),
        y_(std::floor(std::log10(least_y))),
        y_span_(std::max(1.0, std::ceil(std::log10(most_y)) - y_)) {}

  double x(double gpus) const {
    return left + (std::log10(gpus) - x_) / x_span_ * width;
  }
  double y(double value) const {
    return top + height - (std::log10(value) - y_) / y_span_ * height;
  }
  std::string axes(const Line& ideal) const {
    std::string svg;
    for (double each = y_; each <= y_ + y_span_ + 0.1; ++each) {
      const double at = y(std::pow(10, each));
      svg += fmt::format(
          "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" "
          "stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1f}\" "
          "text-anchor=\"end\">{}</text>",
          left,
          left + width,
          at,
          at,
          left - 6,
          at + 4,
          scaled(std::pow(10, each)));
    }
    // A label for each number of GPUs as long as there is room.
    const std::size_t step = 1 + ideal.size() / 12;
    for (std::size_t i = 0; i < ideal.size(); i += step) {
      const double at = x(ideal[i].first);
      svg += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" "
          "stroke=\"#eee\"/><text x=\"{0:.1f}\" y=\"{3}\" "
          "text-anchor=\"middle\">{4:.0f}</text>",
          at,
          top,
          top + height,
          top + height + 18,
          ideal[i].first);
    }
    return svg +
        fmt::format(
               "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">GPUs</text>"
               "<text x=\"{}\" y=\"{}\">tokens a second</text>",
               left + width / 2,
               top + height + 38,
               left,
               top - 10);
  }
  std::string curve(
      const Line& line,
      std::string_view colour,
      std::string_view dashes) const {
    std::string svg = fmt::format(
        "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{} "
        "points=\"",
        colour,
        dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes));
    for (const auto& [gpus, value] : line) {
      svg += fmt::format("{:.1f},{:.1f} ", x(gpus), y(value));
    }
    svg += "\"/>";
    for (const auto& [gpus, value] : line) {
      svg += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>"
          "{:.0f} GPUs: {} tokens/s</title></circle>",
          x(gpus),
          y(value),
          colour,
          gpus,
          scaled(value));
    }
    return svg;
  }

  static constexpr double left = 80;
  static constexpr double top = 70;
  static constexpr double width = 760;
  static constexpr double height = 380;

 private:
  double x_, x_span_;
  double y_, y_span_;
};

std::string cell(
    const std::optional<Estimate>& each,
    const std::function<std::string(const Estimate&)>& text) {
  return each ? text(*each) : "-";
}

} // namespace

std::string scaling_table(
    const std::vector<ScalingPoint>& points,
    const PlanRequest& request) {
  using Align = TextTable::Align;
  std::vector<TextTable::Column> columns{
      {"GPUs", Align::right},
      {"same batch: tokens/s", Align::right},
      {"MFU", Align::right},
      {"batch", Align::right},
      {"growing batch: tokens/s", Align::right},
      {"MFU", Align::right}};
  if (request.asks_goodput) {
    columns.push_back({"goodput", Align::right});
  }
  TextTable table(columns);
  const auto speed = [](const Estimate& each) {
    return scaled(throughput(each));
  };
  const auto mfu = [](const Estimate& each) {
    return fmt::format("{:.1f}%", 100 * each.mfu);
  };
  for (const ScalingPoint& point : points) {
    std::vector<std::string> cells{
        fmt::format("{}", point.gpus),
        cell(point.strong, speed),
        cell(point.strong, mfu),
        cell(
            point.weak,
            [](const Estimate& each) {
              return fmt::format("{}", each.layout.global_batch);
            }),
        cell(point.weak, speed),
        cell(point.weak, mfu)};
    if (request.asks_goodput) {
      cells.push_back(cell(point.weak, [&](const Estimate& each) {
        return fmt::format("{:.1f}%", 100 * goodput_of(each, request).share);
      }));
    }
    table.add(cells);
  }
  return table.text(output_width());
}

std::string scaling_chart(
    const std::vector<ScalingPoint>& points,
    const PlanRequest& request) {
  const auto speed = [](const std::optional<Estimate>& each) {
    return each ? std::optional(throughput(*each)) : std::nullopt;
  };
  struct Curve {
    Line line;
    std::string_view colour, dashes;
    std::string name;
  };
  std::vector<Curve> curves;
  curves.push_back(
      {line_of(points, [&](const ScalingPoint& p) { return speed(p.weak); }),
       "#4e79a7",
       "",
       "the batch grows with the GPUs"});
  if (curves.front().line.empty()) {
    throw ConfigError(
        {.what = "there is nothing to draw: the layout does not fit",
         .where = "--scaling"});
  }
  if (request.asks_goodput) {
    curves.push_back(
        {line_of(
             points,
             [&](const ScalingPoint& p) {
               return p.weak ? std::optional(
                                   throughput(*p.weak) *
                                   goodput_of(*p.weak, request).share)
                             : std::nullopt;
             }),
         "#e15759",
         "",
         "the same, less failures and checkpoints"});
  }
  curves.push_back(
      {line_of(points, [&](const ScalingPoint& p) { return speed(p.strong); }),
       "#59a14f",
       "",
       "the same batch"});
  const Estimate& first =
      *std::ranges::find_if(points, [](const ScalingPoint& point) {
         return point.weak.has_value();
       })->weak;
  const auto [first_gpus, first_speed] = curves.front().line.front();
  Line ideal;
  for (const ScalingPoint& point : points) {
    const auto gpus = static_cast<double>(point.gpus);
    ideal.emplace_back(gpus, first_speed * gpus / first_gpus);
  }
  double least = ideal.front().second;
  double most = ideal.back().second;
  for (const Curve& each : curves) {
    for (const auto& [gpus, value] : each.line) {
      least = std::min(least, value);
      most = std::max(most, value);
    }
  }
  const Plot plot(ideal.front().first, ideal.back().first, least, most);
  curves.push_back({ideal, "#999", "5 4", "in proportion"});
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 580\" "
      "font-family=\"sans-serif\" font-size=\"12\"><rect width=\"900\" "
      "height=\"580\" fill=\"#fff\"/><text x=\"{}\" y=\"28\" "
      "font-size=\"15\">{}</text>",
      Plot::left,
      markup_escaped(fmt::format(
          "{:.4g} billion parameters on {}: {}",
          first.parameters / 1e9,
          request.cluster.name,
          shown_layout(first.layout))));
  svg += plot.axes(ideal);
  double y = Plot::top + Plot::height + 62;
  for (auto each = curves.rbegin(); each != curves.rend(); ++each) {
    svg += plot.curve(each->line, each->colour, each->dashes);
  }
  for (const Curve& each : curves) {
    svg += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"18\" height=\"4\" "
        "fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>",
        Plot::left,
        y - 5,
        each.colour,
        Plot::left + 26,
        y,
        each.name);
    y += 16;
  }
  return svg + "</svg>\n";
}

} // namespace cairn::cli
