#include "monitor/internal/training_view.h"

#include "base/internal/progress_line.h"
#include "base/internal/terminal.h"
#include "monitor/display/painted_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace cairn::monitor {
namespace {

/// The loss as text whose width does not change from step to step.
std::string status_loss(double loss) {
  const double size = std::abs(loss);
  if (size != 0 && (size < 0.01 || size >= 1e4)) {
    return fmt::format("{:.3e}", loss);
  }
  return fmt::format("{:.3f}", loss);
}

/// A part of the status line. Parts are shown in their order; when room is
/// short, the part with the highest rank is left out first.
struct StatusPart {
  int rank = 0;
  std::string text;
};

std::vector<StatusPart> status_parts(const TrainingMoment& moment) {
  std::vector<StatusPart> parts;
  if (moment.loss) {
    parts.push_back({1, "loss " + status_loss(*moment.loss)});
  }
  if (moment.validation_loss) {
    parts.push_back({5, "valid " + status_loss(*moment.validation_loss)});
  }
  parts.push_back({4, fmt::format("lr {:.1e}", moment.learning_rate)});
  parts.push_back({3, amount(moment.tokens_per_second, "tokens") + "/s"});
  if (moment.utilisation) {
    parts.push_back({6, fmt::format("MFU {:.0f}%", *moment.utilisation * 100)});
  }
  if (moment.seconds_left && moment.iteration < moment.iterations) {
    const std::chrono::duration<double> left(*moment.seconds_left);
    parts.push_back({2, clock_time(left) + " left"});
  }
  return parts;
}

std::string joined_parts(const std::vector<StatusPart>& parts) {
  std::string text;
  for (const StatusPart& part : parts) {
    text += "  " + part.text;
  }
  return text;
}

double share_done(const TrainingMoment& moment) {
  return moment.iterations <= 0
      ? 0.0
      : std::clamp(
            static_cast<double>(moment.iteration) /
                static_cast<double>(moment.iterations),
            0.0,
            1.0);
}

void add_bar(PaintedLine& line, double share, std::size_t width) {
  // Counted in halves: ╸ is the left half of ━.
  const auto halves =
      static_cast<std::size_t>(share * 2 * static_cast<double>(width));
  std::string done;
  for (std::size_t i = 0; i < halves / 2; ++i) {
    done += "━";
  }
  done += halves % 2 == 1 ? "╸" : "";
  std::string rest;
  for (std::size_t i = (halves + 1) / 2; i < width; ++i) {
    rest += "─";
  }
  line.add(Ink::curve, done).add(Ink::frame, rest);
}

} // namespace

std::string status_line(
    const TrainingMoment& moment,
    std::size_t columns,
    Colour colour) {
  constexpr std::size_t shortest_bar = 8;
  constexpr std::size_t longest_bar = 40;
  const std::string all = std::to_string(moment.iterations);
  const std::string count =
      fmt::format(" {:>{}}/{}", moment.iteration, all.size(), all);
  const std::string percent =
      fmt::format(" {:3.0f}%", std::floor(share_done(moment) * 100.0));
  std::vector<StatusPart> parts = status_parts(moment);
  const auto width = [&] {
    return text_columns(count + percent + joined_parts(parts));
  };
  // The bar is more important than all parts but those of ranks 1 to 3.
  while (!parts.empty() && width() + 1 + shortest_bar > columns) {
    const auto least = std::max_element(
        parts.begin(),
        parts.end(),
        [](const StatusPart& a, const StatusPart& b) {
          return a.rank < b.rank;
        });
    if (least->rank <= 3 && width() <= columns) {
      break;
    }
    parts.erase(least);
  }
  PaintedLine line(colour);
  line.add(Ink::plain, count);
  const std::size_t taken = width() + 1;
  if (taken + shortest_bar <= columns) {
    line.add(Ink::plain, " ");
    add_bar(line, share_done(moment), std::min(longest_bar, columns - taken));
  }
  line.add(Ink::plain, percent + joined_parts(parts));
  return width() <= columns ? line.take() : cut_text(count, columns);
}

TrainingView::TrainingView(std::optional<LossTarget> target)
    : target_(std::move(target)) {}

void TrainingView::add(const TrainingMoment& moment) {
  if (moment.loss && moment.iteration > last_.iteration) {
    history_.add(moment.iteration, *moment.loss);
  }
  last_ = moment;
}

std::vector<std::string> TrainingView::lines(const Size& size, Colour colour)
    const {
  constexpr std::size_t most_rows = 10;
  constexpr std::size_t least_rows = 4;
  constexpr std::size_t most_columns = 120;
  constexpr std::size_t below = 4; // axis, steps, a blank line, status
  const std::vector<LossHistory::Point> points = history_.points();
  std::vector<std::string> lines;
  const std::size_t half = size.rows / 2;
  if (half >= below + least_rows) {
    lines = loss_plot(
        points,
        target_,
        {.columns = std::min(size.columns, most_columns),
         .rows = std::min(most_rows, half - below)},
        colour);
  }
  if (!lines.empty()) {
    lines.emplace_back();
    lines.push_back(
        status_line(last_, std::min(size.columns, most_columns), colour));
    return lines;
  }
  constexpr std::size_t spark_columns = 16;
  const std::string spark = size.columns >= 5 * spark_columns
      ? loss_spark(points, spark_columns)
      : "";
  std::string line = status_line(
      last_,
      size.columns - (spark.empty() ? 0 : spark_columns + 2),
      colour);
  if (!spark.empty()) {
    line += PaintedLine(colour).add(Ink::curve, "  " + spark).take();
  }
  return {line};
}

} // namespace cairn::monitor
