#include "checkpoints/internal/list_checkpoints.h"
#include "cli/checkpoint/checkpoint_command.h"
#include "cli/program/byte_size.h"
#include "cli/program/command_line.h"
#include "cli/program/text_table.h"

#include <fmt/format.h>

#include <ctime>
#include <string>

namespace cairn::cli {
namespace {

using checkpoints::CheckpointList;
using checkpoints::Facts;
using checkpoints::ListedCheckpoint;

/// The time in the user's time zone, as `ls` shows it.
std::string shown_time(std::int64_t nanoseconds) {
  if (nanoseconds == 0) {
    return "";
  }
  const std::time_t seconds = nanoseconds / 1'000'000'000;
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[40];
  return {text, std::strftime(text, sizeof(text), "%F %T", &parts)};
}

Facts to_json(const CheckpointList& list) {
  Facts all = Facts::array();
  for (const ListedCheckpoint& one : list.checkpoints) {
    all.push_back(
        {{"tag", one.tag},
         {"format", name_of(one.format)},
         {"step", one.step ? Facts(*one.step) : Facts()},
         {"saved_at", one.saved_at},
         {"bytes", one.bytes},
         {"files", one.files},
         {"complete", one.problem.empty()},
         {"problem", one.problem}});
  }
  return {
      {"checkpoints", std::move(all)},
      {"latest", list.latest},
      {"latest_problem", list.latest_problem},
      {"loads", list.loaded},
      {"remains", list.remains}};
}

void print_table(const CheckpointList& list) {
  using Align = TextTable::Align;
  TextTable table(
      {{"tag"},
       {"step", Align::right},
       {"saved"},
       {"size", Align::right},
       {"files", Align::right},
       {"format"},
       {"state"}});
  for (const ListedCheckpoint& one : list.checkpoints) {
    table.add(
        {one.tag,
         one.step ? fmt::to_string(*one.step) : "",
         shown_time(one.saved_at),
         shown_byte_size(one.bytes),
         fmt::to_string(one.files),
         std::string(name_of(one.format)),
         (one.problem.empty() ? "complete" : "DAMAGED") +
             std::string(one.tag == list.latest ? ", latest" : "")});
  }
  fmt::print("{}", table.text(output_width()));
}

} // namespace

int run_checkpoint_list(const Arguments& arguments) {
  CommandLine line(
      "cairn checkpoint list DIR [--json]",
      "cairn checkpoint list run/checkpoints");
  std::string folder;
  bool json = false;
  CLI::App& app = line.app();
  app.description(
      "Lists the checkpoints of a run's folder, oldest first: Cairn's own,\n"
      "DeepSpeed's, Megatron's and Hugging Face's. \"complete\" goes by the "
      "files'\nnames and sizes; `cairn checkpoint verify` reads them.");
  app.add_option("folder", folder, "where a run saves")
      ->type_name("DIR")
      ->required();
  app.add_flag("--json", json, "for programs");
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  const CheckpointList list = checkpoints::list_checkpoints(folder);
  if (json) {
    print_json(to_json(list));
    return exit_ok;
  }
  if (list.checkpoints.empty()) {
    fmt::print("no checkpoints in {}\n", shown_text(folder));
  } else {
    print_table(list);
  }
  bool named = list.latest.empty();
  for (const ListedCheckpoint& one : list.checkpoints) {
    named = named || one.tag == list.latest;
    if (!one.problem.empty()) {
      fmt::print("\n{}: {}\n", shown_text(one.tag), shown_text(one.problem));
    }
  }
  if (!named) {
    fmt::print(
        "\n`latest` names {}, which is not there\n",
        shown_text(list.latest));
  }
  if (!list.latest_problem.empty()) {
    fmt::print("\n{}\n", shown_text(list.latest_problem));
  }
  if (!list.loaded.empty()) {
    fmt::print("\nloading takes {}\n", shown_text(list.loaded));
  } else if (!list.latest.empty() || !list.latest_problem.empty()) {
    fmt::print("\nloading without a tag fails\n");
  }
  for (const std::string& name : list.remains) {
    fmt::print(
        "{}: of a save that was interrupted or is under way\n",
        shown_text(name));
  }
  return exit_ok;
}

} // namespace cairn::cli
