#include "cli/program/text_table.h"
#include "cli/schedule/schedule_chart.h"
#include "cli/schedule/schedule_command.h"
#include "cli/schedule/schedule_flags.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/pipeline/schedule.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

ChartColour wanted_colour() {
  const char* refused = std::getenv("NO_COLOR");
  return ::isatty(1) == 1 && (refused == nullptr || *refused == '\0')
      ? ChartColour::ansi
      : ChartColour::none;
}

std::string cost_table(const pipeline::ScheduleCost& cost) {
  using Align = TextTable::Align;
  TextTable table(
      {{"", Align::left}, {"bubble", Align::right}, {"live", Align::right}});
  for (std::size_t stage = 0; stage < cost.bubble.size(); ++stage) {
    table.add(
        {fmt::format("stage {}", stage),
         fmt::format("{:.1f}%", 100 * cost.bubble[stage]),
         fmt::format("{:.4g}", cost.live[stage])});
  }
  return table.text(output_width());
}

} // namespace

int run_schedule_show(const Arguments& arguments) {
  CommandLine line(
      "cairn schedule show [FLAGS…] --stages N --micro-batches N",
      "cairn schedule show --schedule zb-h1 --stages 4 --micro-batches 8");
  ScheduleFlags flags;
  std::string name = "1f1b";
  std::string svg;
  CLI::App& app = line.app();
  app.description(
      "When which stage of a pipeline does what: F3 is the forward pass of "
      "micro\nbatch 3, B3 its backward pass, W3 what of that only the weights "
      "need, where\nit is a pass of its own; F3.1 is a pass in chunk 1. "
      "Bubble: "
      "the share of the\ntime that a stage waits. Live: activations kept at "
      "once, in those of one\nmicro batch on a stage.");
  const auto& names = pipeline::schedule_names();
  app.add_option(
         "--schedule",
         name,
         fmt::format("{} (1f1b)", fmt::join(names, ", ")))
      ->type_name("NAME")
      ->check(
          CLI::IsMember(std::vector<std::string>(names.begin(), names.end()))
              .description(""));
  flags.add_to(line);
  app.add_option("--svg", svg, "write the chart there, as a picture")
      ->type_name("FILE");
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  flags.check();
  const int chunks = flags.chunks_of(name);
  if (app.count("--chunks") > 0 && chunks != flags.chunks) {
    throw ConfigError(
        {.what = fmt::format("{} has no chunks", name),
         .where = "--chunks",
         .remedy = "use --schedule interleaved"});
  }
  const pipeline::Schedule schedule =
      pipeline::make_schedule(name, flags.stages, flags.micro_batches, chunks);
  // Costs are scaled so that a chunk's share is a whole number.
  pipeline::PassCosts costs = flags.pass_costs();
  costs.forward *= chunks;
  costs.backward *= chunks;
  costs.weights *= chunks;
  const pipeline::Timeline times = pipeline::timeline(schedule, costs);
  const std::string title = fmt::format(
      "{}{}: {}",
      name,
      chunks > 1 ? fmt::format(", {} chunks", chunks) : "",
      flags.sizes_text());
  if (!svg.empty()) {
    write_file_atomically(svg, schedule_svg(times, chunks, title));
  }
  fmt::print(
      "{}\n\n{}\n{}",
      title,
      schedule_chart(times, chunks, wanted_colour(), output_width()),
      cost_table(pipeline::cost_of(schedule, flags.pass_costs())));
  if (!svg.empty()) {
    fmt::print("\nwrote {}\n", svg);
  }
  return exit_ok;
}

} // namespace cairn::cli
