#include "cli/schedule/schedule_flags.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

namespace cairn::cli {
namespace {

constexpr int most_stages = 1024;
constexpr int most_micro_batches = 65536;
constexpr int most_chunks = 64;
constexpr int most_cost = 100;
/// The most passes of each kind, on all stages: nobody reads a larger result.
constexpr long most_passes = 4'000'000;

/// A range that the help does not show: it has enough to read.
CLI::Validator between(int least, int most) {
  CLI::Validator range = CLI::Range(least, most);
  range.description("");
  return range;
}

/// Costs are whole numbers, since a chart has a column for each unit.
CLI::Validator cost() {
  CLI::Validator range(
      [](const std::string& text) {
        return CLI::Range(0, most_cost)(text).empty()
            ? std::string()
            : fmt::format(
                  "costs are whole numbers from 0 to {}, in any unit; not {}",
                  most_cost,
                  text);
      },
      "");
  return range;
}

std::string counted(int number, const char* one, const char* several) {
  return fmt::format("{} {}", number, number == 1 ? one : several);
}

} // namespace

void ScheduleFlags::add_to(CommandLine& line) {
  CLI::App& app = line.app();
  app.add_option("--stages", stages, "of the pipeline")
      ->type_name("N")
      ->check(between(1, most_stages))
      ->required();
  app.add_option("--micro-batches", micro_batches, "of one batch")
      ->type_name("N")
      ->check(between(1, most_micro_batches))
      ->required();
  app.add_option(
         "--chunks",
         chunks,
         "of the model on each stage, for the interleaved schedule (2)")
      ->type_name("N")
      ->check(between(1, most_chunks));
  app.add_option(
         "--costs",
         costs,
         "how long a micro batch takes on a stage: forward, backward for the "
         "inputs, backward for the weights (1,1,1)")
      ->type_name("F,B,W")
      ->delimiter(',')
      ->expected(1, 3)
      ->check(cost());
}

void ScheduleFlags::check() const {
  if (costs.size() != 3) {
    throw ConfigError(
        {.what = "takes three costs",
         .where = "--costs",
         .values = fmt::format("got {}", costs.size()),
         .remedy = "give forward,backward,weights, such as 1,1,1"});
  }
  if (costs[0] + costs[1] + costs[2] == 0) {
    throw ConfigError({.what = "passes without any cost", .where = "--costs"});
  }
  if (static_cast<long>(stages) * micro_batches * chunks > most_passes) {
    throw ConfigError(
        {.what = "too many passes to draw",
         .values = fmt::format(
             "{} stages x {} micro batches x {} chunks",
             stages,
             micro_batches,
             chunks),
         .remedy = "use fewer micro batches: the pattern stays the same"});
  }
}

int ScheduleFlags::chunks_of(std::string_view schedule) const {
  return schedule == "interleaved" ? chunks : 1;
}

pipeline::PassCosts ScheduleFlags::pass_costs() const {
  return {
      .forward = static_cast<double>(costs[0]),
      .backward = static_cast<double>(costs[1]),
      .weights = static_cast<double>(costs[2])};
}

std::string ScheduleFlags::sizes_text() const {
  return fmt::format(
      "{}, {}; forward {}, backward {}, weights {}",
      counted(stages, "stage", "stages"),
      counted(micro_batches, "micro batch", "micro batches"),
      costs[0],
      costs[1],
      costs[2]);
}

} // namespace cairn::cli
