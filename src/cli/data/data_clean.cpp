#include <cairn/base/error.h>
#include <cairn/text/tokenizer.h>

#include "base/internal/cpu.h"
#include "base/internal/progress.h"
#include "cli/data/data_command.h"
#include "cli/data/domain_list.h"
#include "cli/data/files_in_and_out.h"
#include "cli/data/size_on_disk.h"
#include "cli/data/tokenizer_flags.h"
#include "cli/program/byte_size.h"
#include "cli/program/command_line.h"
#include "corpus/internal/check_output.h"
#include "corpus/internal/clean_corpus.h"
#include "corpus/internal/language.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

using corpus::CleanCount;
using corpus::CleanReason;
using corpus::CleanReport;
using corpus::Deduplication;
using corpus::NearDuplicateOptions;

/// The values of the flags, before they become options.
struct CleanFlags {
  corpus::CleanOptions clean{.workers = allowed_cpus().size()};
  text::TokenizerOptions tokenizer;
  std::string output;
  bool overwrite = false;
  std::string blacklist;
  std::string language = "en";
  std::string deduplicate = "near";
  std::string measure = "union";
  std::string on_error = "fail";
};

void add_file_flags(CLI::App& app, CleanFlags& flags) {
  add_inputs(
      app,
      "INPUT",
      flags.clean.inputs,
      "files, compressed or not; - for stdin");
  add_output(app, flags.output, flags.overwrite);
  app.add_option("--json-key", flags.clean.text_key, "key of the text (text)");
  app.add_option("--url-key", flags.clean.url_key, "key of the address (url)");
}

void add_filter_flags(CLI::App& app, CleanFlags& flags) {
  app.add_flag(
      "!--no-url-filter",
      flags.clean.filter_urls,
      "take documents of any address");
  app.add_option(
      "--domain-blacklist",
      flags.blacklist,
      "file of further domains to leave out, one a line");
  app.add_flag(
      "!--no-fix-text",
      flags.clean.fix,
      "leave the characters of texts alone");
  app.add_flag(
      "--standardize-punctuation",
      flags.clean.standardize_punctuation,
      "one way to write quotation marks, dashes, dots and blanks");
  app.add_option(
      "--language",
      flags.language,
      fmt::format(
          "keep this one, or any (en); known: {}",
          fmt::join(corpus::known_languages(), " ")));
  app.add_option(
         "--min-tokens",
         flags.clean.min_tokens,
         "drop shorter documents (128); words and signs count without a "
         "tokenizer")
      ->check(at_least(0));
}

void add_duplicate_flags(CLI::App& app, CleanFlags& flags) {
  app.add_option(
         "--deduplicate",
         flags.deduplicate,
         "what to drop: none, exact or near duplicates (near)")
      ->check(CLI::IsMember({"none", "exact", "near"}));
  app.add_option(
         "--num-seeds",
         flags.clean.near.values,
         "MinHash values of a text (100)")
      ->check(CLI::Range(1, 10000));
  app.add_option(
         "--num-bands",
         flags.clean.near.bands,
         "bands; texts that agree in one are compared (10)")
      ->check(CLI::Range(1, 10000));
  app.add_option(
         "--jaccard",
         flags.measure,
         "shared pieces of five characters, as part of the union, or of the "
         "smaller (min) or larger (max) text's (union)")
      ->check(CLI::IsMember({"union", "min", "max"}));
  app.add_option(
         "--jaccard-threshold",
         flags.clean.near.threshold,
         "texts at least this much alike are duplicates (0.7)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option(
         "--heuristic-iter",
         flags.clean.near.rounds,
         "rounds of comparing one text of a bucket with the others; -1 for all "
         "(1)")
      ->check(CLI::Range(-1, 1'000'000));
}

void add_run_flags(CLI::App& app, CleanFlags& flags) {
  app.add_option(
         "--on-error",
         flags.on_error,
         "broken lines: fail, or skip them (fail)")
      ->check(CLI::IsMember({"fail", "skip"}));
  app.add_option("--workers", flags.clean.workers, "threads (every core)")
      ->check(CLI::Range(1, 1024));
}

std::string checked_language(const std::string& language) {
  const auto known = corpus::known_languages();
  if (language == "any") {
    return "";
  }
  if (std::find(known.begin(), known.end(), language) == known.end()) {
    throw ConfigError(
        {.what = fmt::format("language \"{}\" is not known", language),
         .where = "--language",
         .remedy = fmt::format("take any, or {}", fmt::join(known, ", "))});
  }
  return language;
}

/// Refuses a flag that has no effect beside the others.
void require_effect(const CLI::App& app, const CleanFlags& flags) {
  const auto refuse = [&](const char* flag, const char* reason) {
    if (app.get_option(flag)->count() > 0) {
      throw ConfigError(
          {.what = "has no effect", .where = flag, .values = reason});
    }
  };
  if (!flags.clean.filter_urls) {
    refuse("--domain-blacklist", "--no-url-filter takes every address");
  }
  if (flags.deduplicate != "near") {
    for (const char* flag :
         {"--num-seeds",
          "--num-bands",
          "--jaccard",
          "--jaccard-threshold",
          "--heuristic-iter"}) {
      refuse(flag, "only --deduplicate near compares texts");
    }
  }
}

Deduplication deduplication_from(const std::string& name) {
  return name == "none" ? Deduplication::none
      : name == "exact" ? Deduplication::exact
                        : Deduplication::near;
}

NearDuplicateOptions::Measure measure_from(const std::string& name) {
  using Measure = NearDuplicateOptions::Measure;
  return name == "min" ? Measure::min
      : name == "max"  ? Measure::max
                       : Measure::union_;
}

corpus::CleanOptions options_of(const CLI::App& app, const CleanFlags& flags) {
  corpus::CleanOptions options = flags.clean;
  options.output = flags.output;
  options.language = checked_language(flags.language);
  options.deduplication = deduplication_from(flags.deduplicate);
  options.near.measure = measure_from(flags.measure);
  options.skip_broken_lines = flags.on_error == "skip";
  if (!flags.blacklist.empty()) {
    options.more_blocked_domains = domains_in(flags.blacklist);
  }
  if (any_tokenizer_flag(app)) {
    options.tokenizer = text::load_tokenizer(flags.tokenizer);
  }
  return options;
}

void print_row(
    std::FILE* to,
    std::string_view name,
    const CleanCount& count,
    const CleanCount& of) {
  const double share = of.documents == 0
      ? 0
      : 100.0 * static_cast<double>(count.documents) /
          static_cast<double>(of.documents);
  fmt::print(
      to,
      "{:<30} {:>12} {:>7.2f}% {:>10}\n",
      name,
      count.documents,
      share,
      shown_byte_size(count.bytes));
}

void print_report(std::FILE* to, const CleanReport& report) {
  fmt::print(
      to,
      "{:<30} {:>12} {:>8} {:>10}\n",
      "",
      "documents",
      "share",
      "text");
  print_row(to, "read", report.read, report.read);
  for (std::size_t i = 0; i < corpus::clean_reasons; ++i) {
    if (report.dropped[i].documents > 0) {
      print_row(
          to,
          fmt::format("- {}", name_of(static_cast<CleanReason>(i))),
          report.dropped[i],
          report.read);
    }
  }
  print_row(to, "kept", report.kept, report.read);
  fmt::print(
      to,
      "\nTexts changed: {}. Pairs of texts compared: {}.\n",
      report.fixed,
      report.compared);
  for (const std::string& each : report.broken_lines) {
    fmt::print(stderr, "left out: {}\n", each);
  }
}

} // namespace

int run_data_clean(const Arguments& arguments) {
  CommandLine line(
      "cairn data clean INPUT… --output FILE [FLAGS…]",
      "cairn data clean crawl-*.jsonl.zst --output clean.jsonl --vocab-file "
      "vocab.json --merge-file merges.txt");
  CleanFlags flags;
  CLI::App& app = line.app();
  app.description(
      "Cleans web text by the OpenWebText recipe: drops unwanted addresses, "
      "repairs\ntext, drops other languages and short documents, and keeps the "
      "first of equal\nand nearly equal documents. Reads and writes JSON lines "
      "{\"text\": …, \"url\": …};\nother fields stay as they are.");
  add_file_flags(app, flags);
  add_filter_flags(app, flags);
  add_duplicate_flags(app, flags);
  add_run_flags(app, flags);
  add_tokenizer_flags(app, flags.tokenizer);
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  require_effect(app, flags);
  corpus::check_output(flags.clean.inputs, flags.output, flags.overwrite);
  corpus::CleanOptions options = options_of(app, flags);

  Progress bar(
      {.label = "cleaning",
       .total = size_on_disk(options.inputs),
       .unit = "B"});
  options.on_progress = [&bar](std::uint64_t count) { bar.advance(count); };
  const auto report = corpus::clean_corpus(options);
  bar.done();
  print_report(flags.output == "-" ? stderr : stdout, report);
  return exit_ok;
}

} // namespace cairn::cli
