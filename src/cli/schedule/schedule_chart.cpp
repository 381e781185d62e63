#include "cli/schedule/schedule_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace cairn::cli {
namespace {

using pipeline::Pass;
using pipeline::TimedPass;
using pipeline::Timeline;

struct Cell {
  std::string text = ".";
  const char* colour = "\x1b[2m"; ///< faint: an idle stage
};

const char* colour_of(Pass::Kind kind) {
  switch (kind) {
    case Pass::Kind::forward:
      return "\x1b[34m";
    case Pass::Kind::backward:
      return "\x1b[32m";
    case Pass::Kind::weights:
      return "\x1b[33m";
  }
  return "";
}

std::vector<Cell> cells_of(
    const std::vector<TimedPass>& passes,
    int chunks,
    std::size_t width) {
  std::vector<Cell> cells;
  for (const TimedPass& each : passes) {
    const auto begin = static_cast<std::size_t>(std::lround(each.begin));
    const auto end = static_cast<std::size_t>(std::lround(each.end));
    cells.resize(std::max(begin, cells.size()));
    for (std::size_t at = begin; at < end; ++at) {
      cells.push_back(
          {at == begin ? pass_label(each.pass, chunks)
                       : std::string(width, '-'),
           colour_of(each.pass.kind)});
    }
  }
  return cells;
}

} // namespace

std::string pass_label(const Pass& pass, int chunks) {
  constexpr char letters[] = {'F', 'B', 'W'};
  const char letter = letters[static_cast<int>(pass.kind)];
  return chunks == 1
      ? fmt::format("{}{}", letter, pass.micro_batch)
      : fmt::format("{}{}.{}", letter, pass.micro_batch, pass.chunk);
}

std::string schedule_chart(
    const Timeline& times,
    int chunks,
    ChartColour colour,
    std::size_t width) {
  std::size_t cell = 1;
  for (const auto& passes : times.stages) {
    for (const TimedPass& each : passes) {
      cell = std::max(cell, pass_label(each.pass, chunks).size());
    }
  }
  const std::size_t name =
      fmt::formatted_size("stage {}", times.stages.size() - 1) + 1;
  std::vector<std::vector<Cell>> rows;
  std::size_t columns = 0;
  for (const auto& passes : times.stages) {
    rows.push_back(cells_of(passes, chunks, cell));
    columns = std::max(columns, rows.back().size());
  }
  const std::size_t at_once = width == 0
      ? columns
      : std::max<std::size_t>(1, (width - std::min(width, name)) / (cell + 1));
  std::string text;
  for (std::size_t from = 0; from < columns; from += at_once) {
    text += from == 0 ? "" : "\n";
    for (std::size_t stage = 0; stage < rows.size(); ++stage) {
      std::string line =
          fmt::format("{:<{}}", fmt::format("stage {}", stage), name);
      const std::size_t end = std::min(from + at_once, rows[stage].size());
      for (std::size_t at = from; at < end; ++at) {
        const Cell& each = rows[stage][at];
        line += ' ';
        line += colour == ChartColour::ansi
            ? fmt::format("{}{}\x1b[0m", each.colour, each.text)
            : each.text;
        if (at + 1 < end) {
          line += std::string(cell - each.text.size(), ' ');
        }
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + '\n';
    }
  }
  return text;
}

} // namespace cairn::cli
