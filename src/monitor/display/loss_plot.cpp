#include "monitor/display/loss_plot.h"

#include "base/internal/terminal.h"
#include "monitor/display/braille_canvas.h"
#include "monitor/display/painted_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace cairn::monitor {
namespace {

using Points = std::span<const LossHistory::Point>;

/// `count` values at equal distances: means of the nearby points, or
/// interpolated between two points where there is none.
std::vector<double> resampled(Points points, std::size_t count) {
  std::vector<double> values(count);
  const double first = points.front().step;
  const double width =
      (points.back().step - first) / static_cast<double>(count);
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double begin = first + width * static_cast<double>(i);
    double sum = 0;
    int found = 0;
    const bool last = i + 1 == count;
    while (next < points.size() &&
           (last || points[next].step < begin + width)) {
      sum += points[next++].loss;
      ++found;
    }
    if (found > 0) {
      values[i] = sum / found;
    } else {
      const LossHistory::Point& left = points[next - 1];
      const LossHistory::Point& right =
          points[std::min(next, points.size() - 1)];
      const double gap = right.step - left.step;
      const double share =
          gap > 0 ? (begin + width / 2 - left.step) / gap : 0.0;
      values[i] = left.loss + (right.loss - left.loss) * share;
    }
  }
  return values;
}

struct LossRange {
  double low = 0;
  double high = 0;

  /// The vertical position of a loss: 0 at the top, 1 at the bottom.
  double depth(double loss) const {
    return std::clamp((high - loss) / (high - low), 0.0, 1.0);
  }
};

LossRange range_of(
    const std::vector<double>& losses,
    const std::optional<LossTarget>& target) {
  // Skips the first steps: their fall is many times the later one, and would
  // press the rest of the curve into a single row.
  const std::size_t skipped = losses.size() >= 40 ? losses.size() / 16 : 0;
  const auto [low, high] = std::minmax_element(
      losses.begin() + static_cast<std::ptrdiff_t>(skipped),
      losses.end());
  LossRange range{*low, *high};
  if (target && std::isfinite(target->loss)) {
    range.low = std::min(range.low, target->loss);
    range.high = std::max(range.high, target->loss);
  }
  const double least = std::max(1e-6, std::abs(range.high) * 1e-3);
  if (range.high - range.low < least) {
    range.high += least / 2;
    range.low -= least / 2;
  }
  return range;
}

std::string loss_label(double loss) {
  const double size = std::abs(loss);
  if (size != 0 && (size < 0.01 || size >= 1e4)) {
    return fmt::format("{:.1e}", loss);
  }
  return fmt::format("{:.{}f}", loss, size < 10 ? 2 : size < 100 ? 1 : 0);
}

std::size_t row_of(const LossRange& range, double loss, std::size_t rows) {
  const auto row =
      static_cast<std::size_t>(range.depth(loss) * static_cast<double>(rows));
  return std::min(row, rows - 1);
}

void draw_curve(
    BrailleCanvas& canvas,
    const LossRange& range,
    const std::vector<double>& losses) {
  const auto y_of = [&](std::size_t x) {
    return row_of(range, losses[x], canvas.height());
  };
  const auto draw = [&](std::size_t x, std::size_t from, std::size_t to) {
    for (std::size_t y = std::min(from, to); y <= std::max(from, to); ++y) {
      canvas.set(x, y);
    }
  };
  const auto seen = [&](std::size_t x) { return losses[x] <= range.high; };
  for (std::size_t x = 0; x < losses.size(); ++x) {
    if (!seen(x)) {
      continue;
    }
    const std::size_t y = y_of(x);
    // Draws half of the way to each neighbour, and all the way up to a
    // neighbour above the plot.
    const auto towards = [&](std::size_t neighbour) -> std::size_t {
      if (!seen(neighbour)) {
        return 0;
      }
      const std::size_t to = y_of(neighbour);
      const std::size_t middle = (y + to) / 2;
      return to < y ? middle + 1 : middle; // the neighbour draws the middle
    };
    draw(x, y, x > 0 ? towards(x - 1) : y);
    draw(x, y, x + 1 < losses.size() ? towards(x + 1) : y);
  }
}

std::string repeated(std::string_view text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

/// The characters of the row with the target's dotted line: dots everywhere,
/// and the label near the left end, where a falling curve is far above it.
std::string target_row(std::size_t columns, const std::string& label) {
  constexpr std::size_t margin = 2;
  std::string shown = label.empty() ? "" : " " + label + " ";
  if (text_columns(shown) + 2 * margin > columns) {
    shown.clear();
  }
  const std::size_t dots = columns - text_columns(shown);
  return repeated("┄", margin) + shown + repeated("┄", dots - margin);
}

/// Removes the next character of UTF-8 text and returns it.
std::string take_character(std::string_view& text) {
  std::size_t size = 1;
  while (size < text.size() &&
         (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) {
    ++size;
  }
  const std::string character(text.substr(0, size));
  text.remove_prefix(size);
  return character;
}

} // namespace

std::vector<std::string> loss_plot(
    Points points,
    const std::optional<LossTarget>& target,
    const PlotSize& size,
    Colour colour) {
  constexpr std::size_t label_width = 8;
  if (points.size() < 2 || size.columns < 24 || size.rows < 2 ||
      !(points.back().step > points.front().step)) {
    return {};
  }
  const std::size_t columns = size.columns - label_width - 2;
  BrailleCanvas canvas(columns, size.rows);
  const std::vector<double> losses = resampled(points, canvas.width());
  const LossRange range = range_of(losses, target);
  draw_curve(canvas, range, losses);

  const std::size_t target_at =
      target ? row_of(range, target->loss, size.rows) : size.rows;
  std::vector<std::string> lines;
  for (std::size_t row = 0; row < size.rows; ++row) {
    const std::string label = row == target_at ? loss_label(target->loss)
        : row == 0                             ? loss_label(range.high)
        : row + 1 == size.rows                 ? loss_label(range.low)
                                               : "";
    PaintedLine line(colour);
    line.add(
        Ink::frame,
        fmt::format(
            " {:>{}} {}",
            label,
            label_width - 2,
            label.empty() ? "│" : "┤"));
    const std::string dotted = row == target_at
        ? target_row(columns, target->label)
        : std::string(columns, ' ');
    std::string_view behind = dotted;
    for (std::size_t column = 0; column < columns; ++column) {
      const std::string under = take_character(behind);
      const std::string dots = canvas.cell(column, row);
      dots == " " ? line.add(Ink::frame, under) : line.add(Ink::curve, dots);
    }
    lines.push_back(line.take());
  }
  const auto frame = [&](const std::string& text) {
    lines.push_back(PaintedLine(colour).add(Ink::frame, text).take());
  };
  frame(std::string(label_width, ' ') + "└" + repeated("─", columns));
  const std::string first = fmt::format("{:.0f}", points.front().step);
  const std::string last = fmt::format("{:.0f}", points.back().step);
  frame(fmt::format(
      "{:{}}{}{:>{}}",
      "",
      label_width + 1,
      first,
      last,
      columns - first.size()));
  return lines;
}

std::string loss_spark(Points points, std::size_t columns) {
  constexpr std::string_view blocks[] =
      {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (points.size() < 2 || columns == 0 ||
      !(points.back().step > points.front().step)) {
    return {};
  }
  const std::vector<double> losses = resampled(points, columns);
  const LossRange range = range_of(losses, std::nullopt);
  std::string text;
  for (const double loss : losses) {
    text += blocks[7 - row_of(range, loss, 8)];
  }
  return text;
}

} // namespace cairn::monitor
