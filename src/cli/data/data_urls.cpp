#include "base/internal/progress.h"
#include "cli/data/data_command.h"
#include "cli/data/domain_list.h"
#include "cli/data/files_in_and_out.h"
#include "cli/data/lists_in.h"
#include "cli/data/size_on_disk.h"
#include "cli/program/command_line.h"
#include "corpus/internal/check_output.h"
#include "corpus/internal/url_lists.h"

#include <fmt/core.h>

#include <cstdio>
#include <string>

namespace cairn::cli {
namespace {

void print_report(std::FILE* to, const corpus::UrlListReport& report) {
  const auto row = [&](std::string_view name, std::uint64_t count) {
    const double share = report.read == 0
        ? 0
        : 100.0 * static_cast<double>(count) / static_cast<double>(report.read);
    fmt::print(to, "{:<30} {:>12} {:>7.2f}%\n", name, count, share);
  };
  fmt::print(to, "{:<30} {:>12} {:>8}\n", "", "addresses", "share");
  row("read", report.read);
  for (std::size_t i = 0; i < report.dropped.size(); ++i) {
    if (report.dropped[i] > 0) {
      row(fmt::format("- {}", name_of(static_cast<corpus::UrlReason>(i))),
          report.dropped[i]);
    }
  }
  row("kept", report.kept);
}

} // namespace

int run_data_urls(const Arguments& arguments) {
  CommandLine line(
      "cairn data urls INPUT… --output FILE [FLAGS…]",
      "cairn data urls openwebtext-urls --output clean_urls.txt");
  corpus::UrlListOptions options;
  std::string output;
  std::string blacklist;
  bool overwrite = false;
  CLI::App& app = line.app();
  app.description(
      "Filters lists of web addresses by the OpenWebText recipe, before pages "
      "are\nfetched: drops unwanted domains and file endings, what is no web "
      "address, and\nwhat was there before. Reads and writes one address per "
      "line.");
  add_inputs(app, "INPUT", options.inputs, about_lists);
  add_output(app, output, overwrite);
  app.add_option(
      "--domain-blacklist",
      blacklist,
      "file of further domains to leave out, one a line");
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  options.inputs = lists_in(options.inputs);
  options.output = output;
  corpus::check_output(options.inputs, options.output, overwrite);
  if (!blacklist.empty()) {
    options.more_blocked_domains = domains_in(blacklist);
  }
  Progress bar(
      {.label = "filtering",
       .total = size_on_disk(options.inputs),
       .unit = "B"});
  options.on_progress = [&bar](std::uint64_t count) { bar.advance(count); };
  const auto report = corpus::filter_url_lists(options);
  bar.done();
  print_report(output == "-" ? stderr : stdout, report);
  return exit_ok;
}

} // namespace cairn::cli
