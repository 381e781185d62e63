#pragma once

#include "pipeline/internal/timeline.h"

#include <cstddef>
#include <string>

namespace cairn::cli {

enum class ChartColour { none, ansi };

/// A line for each stage, a cell for each unit of time: the pass that begins
/// there, or dashes where it goes on. Passes begin and end at whole units.
/// Lines wider than `width` columns go on further down; 0 allows any width.
std::string schedule_chart(
    const pipeline::Timeline& times,
    int chunks,
    ChartColour colour,
    std::size_t width);

/// The chart as an SVG picture.
std::string schedule_svg(
    const pipeline::Timeline& times,
    int chunks,
    const std::string& title);

/// "F3", "B3", "W3"; in a chunk "F3.1".
std::string pass_label(const pipeline::Pass& pass, int chunks);

} // namespace cairn::cli
