#pragma once

#include "pipeline/internal/timeline.h"

#include <cstddef>
#include <string>

namespace cairn::cli {

enum class ChartColour { none, ansi };

/// A line for each stage, a cell for each unit of time: what begins there, or
/// dashes where it goes on. Begins and ends of passes are whole units. Longer
/// lines than `width` columns go on further down; 0: none is too long.
std::string schedule_chart(
    const pipeline::Timeline& times,
    int chunks,
    ChartColour colour,
    std::size_t width);

/// The same as a picture.
std::string schedule_svg(
    const pipeline::Timeline& times,
    int chunks,
    const std::string& title);

/// "F3", "B3", "W3"; in a chunk "F3.1".
std::string pass_label(const pipeline::Pass& pass, int chunks);

} // namespace cairn::cli
