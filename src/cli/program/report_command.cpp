// `cairn report`: the logs of runs, as one page.

#include "cli/program/command_line.h"
#include "cli/train/stop_signal.h"
#include "report/internal/report.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

int watch(const report::Places& places, int port) {
  report::LivePage page({.places = places, .port = port});
  watch_stop_signals();
  fmt::print("http://127.0.0.1:{}/ until Ctrl-C\n", page.port());
  std::fflush(stdout);
  page.serve([] {
    try {
      throw_if_stopped();
    } catch (const Stopped&) {
      return true;
    }
    return false;
  });
  return exit_ok;
}

} // namespace

int run_report(const Arguments& arguments) {
  CommandLine line(
      "cairn report RUN… [--output FILE | --watch [--port N]]",
      "cairn report quickstart");
  line.app().description(
      "Draws what runs have logged (--log-jsonl) on one HTML page: losses,\n"
      "speed, memory, restarts, configuration. The page is one file and opens\n"
      "without a network. RUN is a log or a folder that holds some; several\n"
      "are drawn over each other.");
  std::vector<std::string> runs;
  std::string output;
  bool follow = false;
  std::optional<int> port;
  line.app().add_option("RUN", runs, "logs, or folders that hold them");
  line.app().add_option(
      "--output",
      output,
      "the page (default: report.html in the folder)");
  line.app().add_flag(
      "--watch",
      follow,
      "show the page at http://127.0.0.1:PORT/ instead, and follow the runs");
  line.app()
      .add_option("--port", port, "for --watch (default: 8400; 0 takes any)")
      ->check(CLI::Range(0, 65535));
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  if (runs.empty()) {
    throw ConfigError(
        {.what = "which run?",
         .remedy = "name a folder or a log that `cairn pretrain --log-jsonl` "
                   "wrote, as in `cairn report quickstart`"});
  }
  if (follow && !output.empty()) {
    throw ConfigError(
        {.what = "--watch writes no file",
         .where = "--output",
         .remedy = "give one of the two"});
  }
  if (!follow && port) {
    throw ConfigError(
        {.what = "only --watch listens on a port",
         .where = "--port",
         .remedy = "give --watch as well, or leave it out"});
  }
  const report::Places places(runs.begin(), runs.end());
  if (follow) {
    return watch(places, port.value_or(8400));
  }
  const report::Written written = report::write_report(
      places,
      output.empty() ? report::default_page(places)
                     : std::filesystem::path(output));
  fmt::print(
      "{} of {} run{}\n",
      written.page.string(),
      written.runs,
      written.runs == 1 ? "" : "s");
  return exit_ok;
}

} // namespace cairn::cli
