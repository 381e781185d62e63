#pragma once

#include "cli/program/command_line.h"

#include "pipeline/internal/timeline.h"

#include <string>
#include <vector>

namespace cairn::cli {

/// What both commands about schedules ask for.
struct ScheduleFlags {
  int stages = 0;
  int micro_batches = 0;
  int chunks = 2;
  std::vector<int> costs{1, 1, 1};

  void add_to(CommandLine& line);
  /// After parsing. Throws ConfigError.
  void check() const;
  /// Of the schedule of that name: only one has several.
  int chunks_of(std::string_view schedule) const;
  pipeline::PassCosts pass_costs() const;
  /// "4 stages, 8 micro batches; forward 1, backward 1, weights 1".
  std::string sizes_text() const;
};

} // namespace cairn::cli
