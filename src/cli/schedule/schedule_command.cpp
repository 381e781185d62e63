#include "cli/schedule/schedule_command.h"

#include "cli/program/subcommands.h"

#include <vector>

namespace cairn::cli {

int run_schedule(const Arguments& arguments) {
  static const std::vector<Command> members{
      // name, summary, run_schedule_…
      {"compare",
       "idle time and memory of every schedule",
       run_schedule_compare},
      {"show", "when which stage does what, as text or SVG", run_schedule_show},
  };
  return run_subcommand("schedule", members, arguments);
}

} // namespace cairn::cli
