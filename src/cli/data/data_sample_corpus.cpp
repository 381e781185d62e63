#include <cairn/base/error.h>

#include "base/internal/cpu.h"
#include "base/internal/progress.h"
#include "cli/data/data_command.h"
#include "cli/program/byte_size.h"
#include "cli/program/command_line.h"
#include "corpus/internal/check_output.h"
#include "corpus/internal/story_corpus.h"

#include <fmt/core.h>

#include <cstdio>
#include <numbers>
#include <string>

namespace cairn::cli {
namespace {

void print_summary(
    std::FILE* to,
    const corpus::StoryCorpusReport& report,
    const corpus::StoryEntropy& entropy) {
  const double nats = entropy.bits_per_document * std::numbers::ln2;
  fmt::print(
      to,
      "{} stories, {} words, {} ({} bytes)\n\n"
      "Entropy, from the probabilities of the grammar; no model can go below:\n"
      "  {:<14} {:>9} {:>9}\n",
      report.documents,
      report.words,
      shown_byte_size(report.bytes),
      report.bytes,
      "",
      "bits",
      "nats");
  const auto row = [&](const char* per, double bits) {
    fmt::print(
        to,
        "  {:<14} {:>9.4f} {:>9.4f}\n",
        per,
        bits,
        bits * std::numbers::ln2);
  };
  row("per story", entropy.bits_per_document);
  row("per word", entropy.bits_per_word());
  row("per character", entropy.bits_per_character());
  fmt::print(
      to,
      "\nThe loss of a language model approaches {:.4f} x stories / tokens, "
      "for "
      "any tokenizer\n"
      "(end-of-document tokens counted): here {:.4f} x {} / tokens.\n",
      nats,
      nats,
      report.documents);
}

} // namespace

int run_data_sample_corpus(const Arguments& arguments) {
  CommandLine line(
      "cairn data sample-corpus [--output FILE] [--size SIZE | --documents N]",
      "cairn data sample-corpus --output stories.jsonl --size 100MB");
  corpus::StoryCorpusOptions options;
  options.workers = allowed_cpus().size();
  std::string output = "-";
  bool overwrite = false;
  std::string size = "10MB";
  std::string format = "jsonl";
  std::uint64_t documents = 0;
  CLI::App& app = line.app();
  app.description(
      "Writes short stories from a random grammar whose entropy is known: "
      "data\n"
      "for quick starts, tests and benchmarks, with the loss that training\n"
      "should approach. The same seed gives the same bytes, on any machine "
      "and\n"
      "with any number of workers.");
  app.add_option("-o,--output", output, "file, or - for standard output (-)");
  app.add_flag("--overwrite", overwrite, "replace an output that is there");
  auto* size_option = app.add_option(
      "--size",
      size,
      "stop with the story that reaches it: 1.5GB, 64MiB (10MB)");
  auto* documents_option =
      app.add_option("--documents", documents, "number of stories instead")
          ->excludes(size_option)
          ->check(at_least(1));
  app.add_option("--seed", options.seed, "of the random numbers (1234)")
      ->check(at_least(0));
  app.add_option(
         "--format",
         format,
         "jsonl, or text: stories parted by an empty line (jsonl)")
      ->check(CLI::IsMember({"jsonl", "text"}));
  app.add_option("--workers", options.workers, "threads (every core)")
      ->check(CLI::Range(1, 1024));
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  corpus::check_output({}, output, overwrite);
  options.output = output;
  options.format =
      format == "text" ? corpus::StoryFormat::text : corpus::StoryFormat::jsonl;
  if (documents_option->count() > 0) {
    options.documents = documents;
  } else {
    options.bytes = byte_size_from("--size", size);
  }

  Progress bar(
      {.label = "writing stories",
       .total = options.documents.value_or(options.bytes),
       .unit = options.documents ? "stories" : "B"});
  options.on_progress = [&bar](std::uint64_t count) { bar.advance(count); };
  const auto report = corpus::write_story_corpus(options);
  bar.done();
  print_summary(
      output == "-" ? stderr : stdout,
      report,
      corpus::story_entropy());
  return exit_ok;
}

} // namespace cairn::cli
