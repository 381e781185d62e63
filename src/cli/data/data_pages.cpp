#include <cairn/base/error.h>

#include "base/internal/progress.h"
#include "cli/data/data_command.h"
#include "cli/data/files_in_and_out.h"
#include "cli/data/lists_in.h"
#include "cli/program/byte_size.h"
#include "cli/program/command_line.h"
#include "corpus/internal/check_output.h"
#include "corpus/internal/fetch_pages.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;

/// The values of the flags, before they become options.
struct PageFlags {
  corpus::PageOptions pages{};
  std::string output;
  std::string failures;
  bool overwrite = false;
  bool ignore_robots = false;
  double delay = 1;
  int longest_time = 60;
  int timeout = 30;
  std::string largest_page = "4M";
};

void add_flags(CLI::App& app, PageFlags& flags) {
  add_inputs(app, "LIST", flags.pages.inputs, about_lists);
  add_output(app, flags.output, flags.overwrite);
  app.add_option(
      "--failures",
      flags.failures,
      "file of the addresses without a page, and why (OUTPUT.failed)");
  app.add_option(
         "--jobs",
         flags.pages.jobs,
         "requests at a time, each to another server (32)")
      ->check(CLI::Range(1, 4096));
  app.add_option(
         "--delay",
         flags.delay,
         "seconds between two requests to a server (1)")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option(
         "--retries",
         flags.pages.transfer.attempts,
         "attempts when the network or a server is in trouble (3)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--timeout", flags.timeout, "seconds without a byte (30)")
      ->check(CLI::Range(1, 3600));
  app.add_option("--max-time", flags.longest_time, "seconds for a page (60)")
      ->check(CLI::Range(1, 3600));
  app.add_option("--max-size", flags.largest_page, "largest page (4M)");
  app.add_option(
      "--min-length",
      flags.pages.least_text,
      "bytes of text below which a page counts as too short (200)");
  app.add_option(
      "--user-agent",
      flags.pages.user_agent,
      "what servers are told, and the name in robots.txt (cairn-data-pages)");
  app.add_flag(
      "--ignore-robots",
      flags.ignore_robots,
      "fetch also what robots.txt forbids");
  app.add_flag(
      "--private-networks",
      flags.pages.private_networks,
      "fetch also from this machine and from local networks");
}

corpus::PageOptions options_of(const PageFlags& flags) {
  corpus::PageOptions options = flags.pages;
  options.inputs = lists_in(options.inputs);
  corpus::check_output(options.inputs, flags.output, flags.overwrite);
  options.output = flags.output;
  options.failures = !flags.failures.empty() || flags.output == "-"
      ? flags.failures
      : flags.output + ".failed";
  // A run that continues another has a file of failures already.
  const bool continues = fs::exists(flags.output + ".part");
  corpus::check_output(
      options.inputs,
      options.failures,
      flags.overwrite || continues);
  options.largest_page = byte_size_from("--max-size", flags.largest_page);
  if (options.largest_page > (std::size_t{1} << 30)) {
    throw ConfigError(
        {.what = "a page of more than 1 GiB is none to read",
         .where = "--max-size",
         .values = flags.largest_page});
  }
  if (options.user_agent.empty() ||
      !std::ranges::all_of(options.user_agent, [](char c) {
        return c >= ' ' && c <= '~';
      })) {
    throw ConfigError(
        {.what = "is no name to be sent to servers",
         .where = "--user-agent",
         .remedy = "give one in ASCII, such as \"my-crawler/1.0 "
                   "(+https://example.org/about-it)\""});
  }
  options.robots = !flags.ignore_robots;
  options.delay =
      std::chrono::milliseconds(static_cast<long>(1000 * flags.delay));
  options.longest_time = std::chrono::seconds(flags.longest_time);
  options.transfer.stall_timeout = std::chrono::seconds(flags.timeout);
  options.transfer.connect_timeout = std::chrono::seconds(flags.timeout);
  return options;
}

void print_report(
    std::FILE* to,
    const corpus::PageReport& report,
    const fs::path& failures) {
  fmt::print(to, "{:<30} {:>12}\n", "", "addresses");
  const auto row = [&](std::string_view name, std::uint64_t count) {
    if (count > 0) {
      fmt::print(to, "{:<30} {:>12}\n", name, count);
    }
  };
  row("read", report.read);
  row("- there before", report.repeated);
  std::uint64_t failed = 0;
  for (std::size_t i = 0; i < report.failed.size(); ++i) {
    row(fmt::format("- {}", name_of(static_cast<corpus::PageFailure>(i))),
        report.failed[i]);
    failed += report.failed[i];
  }
  fmt::print(
      to,
      "{:<30} {:>12}, {} of text\n",
      "pages",
      report.pages,
      shown_byte_size(report.text_bytes));
  row("of an earlier run", report.earlier);
  if (failed > 0 && !failures.empty()) {
    fmt::print(
        to,
        "the addresses without a page are in {}\n",
        failures.string());
  }
}

} // namespace

int run_data_pages(const Arguments& arguments) {
  CommandLine line(
      "cairn data pages LIST… --output FILE [FLAGS…]",
      "cairn data pages clean_urls.txt --output pages.jsonl");
  PageFlags flags;
  CLI::App& app = line.app();
  app.description(
      "Fetches the pages of lists of web addresses and writes their main text: "
      "a line\n{\"url\", \"title\", \"text\"} per page, in the order in which "
      "they come. Run the same\ncommand again to continue an interrupted run.");
  add_flags(app, flags);
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  corpus::PageOptions options = options_of(flags);
  // A connection that breaks while we write to it is an error, not our end.
  std::signal(SIGPIPE, SIG_IGN);
  const bool from_stdin =
      std::ranges::find(options.inputs, "-") != options.inputs.end();
  Progress bar(
      {.label = "fetching",
       .total = from_stdin ? 0 : corpus::count_addresses(options.inputs),
       .unit = "addresses"});
  options.on_progress = [&bar](std::uint64_t count) { bar.advance(count); };
  const auto report = corpus::fetch_pages(options);
  bar.done();
  print_report(flags.output == "-" ? stderr : stdout, report, options.failures);
  return exit_ok;
}

} // namespace cairn::cli
