#include <cairn/base/error.h>
#include <cairn/base/log.h>

#include "base/internal/cpu.h"
#include "base/internal/progress.h"
#include "cli/data/data_command.h"
#include "cli/data/size_on_disk.h"
#include "cli/program/byte_size.h"
#include "cli/program/command_line.h"
#include "corpus/internal/check_output.h"
#include "corpus/internal/wiki_dump.h"

#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace cairn::cli {
namespace {

/// The values of the flags, before they become options.
struct WikiFlags {
  corpus::WikiDumpOptions dump{.workers = allowed_cpus().size()};
  std::string input;
  std::string output;
  bool overwrite = false;
  bool json = false;
  std::string bytes = "1M";
};

void add_flags(CLI::App& app, WikiFlags& flags) {
  app.add_option(
         "DUMP",
         flags.input,
         "the dump, compressed or not; - for stdin")
      ->required();
  app.add_option(
         "-o,--output",
         flags.output,
         "file, - for stdout, or a folder (existing, or ending in /) that gets "
         "AA/wiki_00, …")
      ->required();
  app.add_flag(
      "--overwrite",
      flags.overwrite,
      "replace an output that is there");
  app.add_flag(
      "--json",
      flags.json,
      "JSON lines: the only format, so always on");
  app.add_option(
      "-b,--bytes",
      flags.bytes,
      "size of each file in a folder (1M)");
  app.add_option(
         "--namespaces",
         flags.dump.namespaces,
         "numbers of the namespaces to take, with commas or spaces between "
         "(0: articles)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag(
      "--lists",
      flags.dump.lists,
      "keep list items, as lines \"- item\"");
  app.add_flag(
      "--html-safe",
      flags.dump.html_safe,
      "write & < > as &amp; &lt; &gt;, WikiExtractor's default");
  app.add_flag(
      "--standardize-punctuation",
      flags.dump.standardize_punctuation,
      "one way to write quotation marks, dashes, dots and blanks");
  app.add_option(
         "--workers,--processes",
         flags.dump.workers,
         "threads (every core)")
      ->check(CLI::Range(1, 1024));
}

corpus::WikiDumpOptions options_of(
    const CLI::App& app,
    const WikiFlags& flags) {
  corpus::WikiDumpOptions options = flags.dump;
  options.input = flags.input;
  corpus::check_output({&options.input, 1}, flags.output, flags.overwrite);
  options.output = flags.output;
  options.bytes_per_file = byte_size_from("--bytes", flags.bytes);
  if (app.count("--bytes") > 0 && options.output.has_filename() &&
      !std::filesystem::is_directory(options.output)) {
    throw ConfigError(
        {.what = "has no effect",
         .where = "--bytes",
         .values = "the output is one file",
         .remedy = "write a folder's name with / at its end"});
  }
  return options;
}

void print_summary(
    std::FILE* to,
    const corpus::WikiDumpReport& report,
    std::size_t largest_page) {
  fmt::print(
      to,
      "{} articles, {} of text out of {} of markup\n",
      report.articles,
      shown_byte_size(report.text_bytes),
      shown_byte_size(report.markup_bytes));
  fmt::print(
      to,
      "{} pages read; left out: {} redirects, {} of other namespaces, "
      "{} without text, {} that are no wikitext\n",
      report.pages,
      report.redirects,
      report.other_namespaces,
      report.without_text,
      report.other_content);
  if (report.too_large > 0) {
    fmt::print(
        stderr,
        "left out as well: {} pages of more than {}\n",
        report.too_large,
        shown_byte_size(largest_page));
  }
}

/// Turns "--namespaces 0 1" into "--namespaces 0,1": the dump may follow it.
Arguments with_joined_namespaces(const Arguments& arguments) {
  const auto is_number = [](const std::string& word) {
    return !word.empty() &&
        word.find_first_not_of("0123456789,") == std::string::npos;
  };
  Arguments words;
  bool namespaces = false;
  for (const std::string& word : arguments) {
    if (namespaces && is_number(word) && is_number(words.back())) {
      words.back() += "," + word;
      continue;
    }
    namespaces = word == "--namespaces" || (namespaces && is_number(word));
    words.push_back(word);
  }
  return words;
}

} // namespace

int run_data_wiki(const Arguments& arguments) {
  CommandLine line(
      "cairn data wiki DUMP.xml[.bz2] --output FILE|FOLDER/ [FLAGS…]",
      "cairn data wiki enwiki-latest-pages-articles.xml.bz2 --output "
      "enwiki.jsonl");
  WikiFlags flags;
  CLI::App& app = line.app();
  app.description(
      "Extracts the text of a MediaWiki dump, as WikiExtractor --json does: a "
      "line\n{\"id\", \"revid\", \"url\", \"title\", \"text\"} per article, in "
      "the dump's order.");
  add_flags(app, flags);
  if (!line.parse(with_joined_namespaces(arguments))) {
    return exit_ok;
  }
  corpus::WikiDumpOptions options = options_of(app, flags);

  Progress bar(
      {.label = "extracting",
       .total = size_on_disk({&options.input, 1}),
       .unit = "B"});
  options.on_progress = [&bar](std::uint64_t count) { bar.advance(count); };
  const auto report = corpus::extract_wiki_dump(options, Logger());
  bar.done();
  print_summary(
      flags.output == "-" ? stderr : stdout,
      report,
      options.largest_page);
  return exit_ok;
}

} // namespace cairn::cli
