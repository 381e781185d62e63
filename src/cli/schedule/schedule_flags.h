#pragma once

#include "cli/program/command_line.h"
#include "pipeline/internal/timeline.h"

#include <string>
#include <vector>

namespace cairn::cli {

/// The flags of both commands about schedules.
struct ScheduleFlags {
  int stages = 0;
  int micro_batches = 0;
  int chunks = 2;
  std::vector<int> costs{1, 1, 1};

  void add_to(CommandLine& line);
  /// Checks the values after parsing. Throws ConfigError.
  void check() const;
  /// Chunks of the schedule of that name: only one schedule has several.
  int chunks_of(std::string_view schedule) const;
  pipeline::PassCosts pass_costs() const;
  /// "4 stages, 8 micro batches; forward 1, backward 1, weights 1".
  std::string sizes_text() const;
};

} // namespace cairn::cli
