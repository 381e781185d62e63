#include "base/internal/markup_escaped.h"
#include "cli/schedule/schedule_chart.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::cli {
namespace {

using pipeline::Pass;
using pipeline::TimedPass;
using pipeline::Timeline;

constexpr double row_height = 26;
constexpr double bar_height = 22;
constexpr double left = 64;
constexpr double right = 16;
constexpr double top = 40;
constexpr double bottom = 34;
constexpr double most_width = 1400;
constexpr double letter_width = 6.2; ///< width of a letter of the labels

/// The fill colour; later chunks are darker.
std::string fill_of(const Pass& pass, int chunks) {
  struct Shade {
    int hue;
    int saturation;
    int lightness;
  };
  constexpr Shade shades[] = {{212, 80, 74}, {145, 45, 66}, {40, 90, 70}};
  const Shade& shade = shades[static_cast<int>(pass.kind)];
  const int darker = chunks > 1 ? 20 * pass.chunk / (chunks - 1) : 0;
  return fmt::format(
      "hsl({} {}% {}%)",
      shade.hue,
      shade.saturation,
      shade.lightness - darker);
}

std::string bar(const TimedPass& each, double unit, double y, int chunks) {
  const double x = left + each.begin * unit;
  const double width = (each.end - each.begin) * unit;
  std::string result = fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" "
      "fill=\"{}\" stroke=\"#fff\"/>\n",
      x,
      y,
      width,
      bar_height,
      fill_of(each.pass, chunks));
  // The label is only the number; the colour tells the kind and the chunk.
  const std::string label = std::to_string(each.pass.micro_batch);
  if (static_cast<double>(label.size()) * letter_width <= width - 2) {
    result += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
        x + width / 2,
        y + bar_height - 7,
        label);
  }
  return result;
}

bool has(const Timeline& times, Pass::Kind kind) {
  return std::ranges::any_of(times.stages, [&](const auto& passes) {
    return std::ranges::any_of(passes, [&](const TimedPass& each) {
      return each.pass.kind == kind;
    });
  });
}

std::string legend(const Timeline& times, int chunks, double y) {
  std::string result;
  double x = left;
  const auto add = [&](Pass pass, const std::string& text) {
    result += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" "
        "fill=\"{}\"/>\n<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
        x,
        y,
        fill_of(pass, chunks),
        x + 17,
        y + 10,
        text);
    x += 34 + letter_width * static_cast<double>(text.size());
  };
  const bool split = has(times, Pass::Kind::weights);
  add({Pass::Kind::forward}, "forward");
  add({Pass::Kind::backward}, split ? "backward, inputs" : "backward");
  if (split) {
    add({Pass::Kind::weights}, "backward, weights");
  }
  if (chunks > 1) {
    result += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\">darker: later chunks</text>\n",
        x,
        y + 10);
  }
  return result;
}

} // namespace

std::string schedule_svg(
    const Timeline& times,
    int chunks,
    const std::string& title) {
  // The picture is as wide as the labels need and as a page allows.
  const double length = std::max(times.length, 1.0);
  const double unit = std::min(22.0, (most_width - left - right) / length);
  const double width = std::max(left + unit * length + right, 480.0);
  const double rows = row_height * static_cast<double>(times.stages.size());
  const double height = top + rows + bottom;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n"
      "<title>{2}</title>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"12\" y=\"24\" font-size=\"14\">{2}</text>\n",
      width,
      height,
      markup_escaped(title));
  for (std::size_t stage = 0; stage < times.stages.size(); ++stage) {
    const double y = top + row_height * static_cast<double>(stage);
    svg += fmt::format(
        "<text x=\"12\" y=\"{:.1f}\">stage {}</text>\n"
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" "
        "fill=\"#eee\"/>\n",
        y + bar_height - 7,
        stage,
        left,
        y,
        unit * times.length,
        bar_height);
    for (const TimedPass& each : times.stages[stage]) {
      svg += bar(each, unit, y, chunks);
    }
  }
  return svg + legend(times, chunks, top + rows + 10) + "</svg>\n";
}

} // namespace cairn::cli
