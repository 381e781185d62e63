#pragma once

#include "monitor/display/loss_history.h"

#include <cairn/monitor/run_values.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::monitor {

enum class Colour { none, ansi };

struct PlotSize {
  std::size_t columns = 80;
  std::size_t rows = 8; ///< of the curve; the axis below takes two more
};

/// The curve in braille dots, with the range of losses on its left and the
/// range of steps below it; one string per line, none longer than the columns:
///
///   10.8 ┤⢣
///        │ ⠑⢄
///        │   ⠑⠢⢄⣀
///   2.91 ┤       ⠉⠒⠤⣀⣀
///        └────────────
///         1        240
///
/// The first steps may lie above the plot, so that the rest is shown in detail.
/// Empty for fewer than two points, 24 columns or 2 rows.
std::vector<std::string> loss_plot(
    std::span<const LossHistory::Point> points,
    const std::optional<LossTarget>& target,
    const PlotSize& size,
    Colour colour = Colour::none);

/// A line of eight heights, `▇▆▄▃▂▂▁▁`, for when there is no room for a plot.
std::string loss_spark(
    std::span<const LossHistory::Point> points,
    std::size_t columns);

} // namespace cairn::monitor
