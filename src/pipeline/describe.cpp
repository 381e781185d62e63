#include "pipeline/internal/timeline.h"

#include <cairn/pipeline/schedule.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace cairn::pipeline {
namespace {

/// Label of a pass: "F3", "B3" or "W3"; with chunks "F3.1".
std::string label_of(const Pass& pass, int chunks) {
  constexpr char letters[] = {'F', 'B', 'W'};
  const char letter = letters[static_cast<int>(pass.kind)];
  return chunks == 1
      ? fmt::format("{}{}", letter, pass.micro_batch)
      : fmt::format("{}{}.{}", letter, pass.micro_batch, pass.chunk);
}

} // namespace

std::string describe(const Schedule& schedule) {
  // Every pass takes one column.
  const double column = schedule.chunks;
  const Timeline times = timeline(
      schedule,
      {.forward = column,
       .backward = column,
       .weights = schedule.splits_backward ? column : 0});
  const std::size_t stages = times.stages.size();
  const std::size_t name = fmt::formatted_size("stage {}", stages - 1);
  const std::size_t cell = label_of(
                               {Pass::Kind::forward,
                                schedule.micro_batches - 1,
                                schedule.chunks - 1},
                               schedule.chunks)
                               .size();
  std::string result;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    std::string line =
        fmt::format("{:<{}} ", fmt::format("stage {}", stage), name);
    long at = 0;
    for (const TimedPass& each : times.stages[stage]) {
      for (; at < std::lround(each.begin); ++at) {
        line += fmt::format(" {:<{}}", ".", cell);
      }
      line +=
          fmt::format(" {:<{}}", label_of(each.pass, schedule.chunks), cell);
      at = std::lround(each.end);
    }
    result += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return result;
}

} // namespace cairn::pipeline
