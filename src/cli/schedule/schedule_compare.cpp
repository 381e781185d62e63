#include "cli/program/text_table.h"
#include "cli/schedule/schedule_command.h"
#include "cli/schedule/schedule_flags.h"

#include <cairn/pipeline/schedule.h>
#include <fmt/format.h>

#include <string>

namespace cairn::cli {

int run_schedule_compare(const Arguments& arguments) {
  CommandLine line(
      "cairn schedule compare [FLAGS…] --stages N --micro-batches N",
      "cairn schedule compare --stages 8 --micro-batches 32");
  ScheduleFlags flags;
  line.app().description(
      "What every schedule costs. Time: of one batch, as long as messages "
      "take\n"
      "none. Bubble: the share of it that a stage waits. Live: activations "
      "kept\n"
      "at once on the stage that keeps most, in those of one micro batch on a\n"
      "stage.");
  flags.add_to(line);
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  flags.check();
  using Align = TextTable::Align;
  TextTable table(
      {{"schedule", Align::left},
       {"time", Align::right},
       {"bubble", Align::right},
       {"live", Align::right}});
  for (const std::string_view name : pipeline::schedule_names()) {
    const int chunks = flags.chunks_of(name);
    if (chunks > 1 && flags.stages == 1) {
      continue;
    }
    const pipeline::ScheduleCost cost = pipeline::cost_of(
        pipeline::make_schedule(
            name,
            flags.stages,
            flags.micro_batches,
            chunks),
        flags.pass_costs());
    table.add(
        {chunks > 1 ? fmt::format("{}, {} chunks", name, chunks)
                    : std::string(name),
         fmt::format("{:.4g}", cost.length),
         fmt::format("{:.1f}%", 100 * cost.worst_bubble()),
         fmt::format("{:.4g}", cost.most_live())});
  }
  fmt::print("{}\n\n{}", flags.sizes_text(), table.text(output_width()));
  return exit_ok;
}

} // namespace cairn::cli
