#include <cairn/base/error.h>
#include <cairn/base/log.h>
#include <cairn/text/tokenizer.h>

#include "base/internal/cpu.h"
#include "base/internal/progress.h"
#include "cli/data/peak_memory.h"
#include "cli/data/tokenizer_flags.h"
#include "cli/program/byte_size.h"
#include "cli/program/command.h"
#include "cli/program/command_line.h"
#include "data/internal/preprocess.h"

#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>

namespace cairn::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// The values of the flags, before they become options.
struct Flags {
  text::TokenizerOptions tokenizer;
  data::PreprocessOptions preprocess;
  std::string format = "mmap";
  bool split_sentences = false;
  std::string language; ///< empty: not given, so "english"
  std::filesystem::path sentence_model;
  bool keep_sequential = false;
  std::string on_error = "fail";
  bool overwrite = false;
  std::uint64_t log_interval = 0;
};

void add_input_flags(CLI::App& app, Flags& flags) {
  const std::string group = "Input";
  app.add_option(
         "--input",
         flags.preprocess.inputs,
         "files with a JSON object on each line, plain or packed with gzip, "
         "zstd, xz or bzip2; - is standard input")
      ->type_name("FILE")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->required()
      ->group(group);
  app.add_option(
         "--json-keys,--json-key",
         flags.preprocess.keys,
         "fields to take texts from; each gets files of its own")
      ->type_name("KEY")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->capture_default_str()
      ->group(group);
  app.add_flag(
         "--split-sentences",
         flags.split_sentences,
         "sentences become sequences of their own (BERT, T5)")
      ->group(group);
  app.add_flag(
         "--keep-newlines",
         flags.preprocess.keep_newlines,
         "keep the line breaks between sentences")
      ->group(group);
  app.add_option(
         "--lang",
         flags.language,
         "language of the sentences (english); others need "
         "--sentence-model")
      ->group(group);
  app.add_option(
         "--sentence-model",
         flags.sentence_model,
         "a sentence model of your own (docs/sentences.md)")
      ->type_name("FILE")
      ->group(group);
  app.add_option(
         "--on-error",
         flags.on_error,
         "a broken line: fail names it and stops, skip counts it")
      ->type_name("fail|skip")
      ->check(CLI::IsMember({"fail", "skip"}).description(""))
      ->capture_default_str()
      ->group(group);
}

void add_output_flags(CLI::App& app, Flags& flags) {
  const std::string group = "Output";
  app.add_option(
         "--output-prefix",
         flags.preprocess.output_prefix,
         "files are named PREFIX_KEY_document.bin and .idx, or …_sentence")
      ->type_name("PREFIX")
      ->required()
      ->group(group);
  app.add_option(
         "--dataset-impl",
         flags.format,
         "mmap, or the older format that lazy and cached both read")
      ->type_name("mmap|cached|lazy")
      ->check(CLI::IsMember({"mmap", "cached", "lazy"}).description(""))
      ->capture_default_str()
      ->group(group);
  app.add_flag(
         "--append-eod",
         flags.preprocess.append_eod,
         "end every document that is not empty with the end-of-document "
         "token")
      ->group(group);
  app.add_flag("--overwrite", flags.overwrite, "replace outputs that are there")
      ->group(group);
}

void add_run_flags(CLI::App& app, Flags& flags) {
  const std::string group = "Run";
  app.add_option("--workers", flags.preprocess.workers, "threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--partitions",
         flags.preprocess.partitions,
         "write documents in the order that Megatron's --partitions N gives: "
         "every Nth line, then the lines after those, and so on")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  app.add_flag(
         "--keep-sequential-samples",
         flags.keep_sequential,
         "keep the order of the input, whatever --partitions says")
      ->group(group);
  app.add_option(
         "--log-interval",
         flags.log_interval,
         "a line about every so many documents instead of a progress bar")
      ->group(group);
}

void complete(Flags& flags, const Logger& log) {
  auto& options = flags.preprocess;
  options.format = flags.format == "mmap" ? data::IndexFormat::mmap
                                          : data::IndexFormat::classic;
  options.on_error =
      flags.on_error == "skip" ? data::OnError::skip : data::OnError::fail;
  options.existing =
      flags.overwrite ? data::Existing::replace : data::Existing::keep;
  if (flags.keep_sequential) {
    options.partitions = 1;
  }
  if (!flags.split_sentences) {
    if (options.keep_newlines || !flags.sentence_model.empty() ||
        !flags.language.empty()) {
      throw ConfigError(
          {.what = "--keep-newlines, --lang and --sentence-model are for "
                   "sentences",
           .remedy = "add --split-sentences"});
    }
    if (flags.tokenizer.type.starts_with("Bert")) {
      log.warning(
          "BERT is trained on sentences: --split-sentences is not given");
    }
  } else if (!flags.sentence_model.empty()) {
    options.splitter = text::SentenceSplitter::load(flags.sentence_model);
  } else if (flags.language.empty() || flags.language == "english") {
    options.splitter = text::SentenceSplitter::english();
  } else {
    throw ConfigError(
        {.what = fmt::format("no model for \"{}\" is built in", flags.language),
         .remedy = "give one with --sentence-model FILE"});
  }
  options.tokenizer = text::load_tokenizer(flags.tokenizer);
}

/// Shows the progress: a bar, or a line every so often.
class Reporter {
 public:
  Reporter(const Flags& flags, const Logger& log)
      : interval_(flags.log_interval),
        log_(log),
        start_(Clock::now()),
        bar_(
            {.label = "tokenizing",
             .total = data::stored_size(flags.preprocess),
             .unit = "B",
             .second_unit = "documents",
             .line_interval = std::chrono::seconds(10)}) {}

  void operator()(const data::PreprocessReport& now) {
    if (interval_ == 0) {
      bar_.advance(now.bytes_read - bytes_, now.documents - documents_);
    } else if (now.documents / interval_ > documents_ / interval_) {
      const std::chrono::duration<double> time = Clock::now() - start_;
      log_.info(
          "processed {} documents ({:.0f} documents/s, {:.2f} MB/s)",
          now.documents,
          static_cast<double>(now.documents) / time.count(),
          static_cast<double>(now.text_bytes) / 1e6 / time.count());
    }
    bytes_ = now.bytes_read;
    documents_ = now.documents;
  }
  void done() {
    if (interval_ == 0) {
      bar_.done();
    }
  }

 private:
  std::uint64_t interval_;
  const Logger& log_;
  Clock::time_point start_;
  Progress bar_;
  std::uint64_t bytes_ = 0;
  std::uint64_t documents_ = 0;
};

void print_report(const data::PreprocessReport& report, double seconds) {
  const std::string skipped = report.skipped == 0
      ? std::string()
      : fmt::format(" ({} lines skipped)", report.skipped);
  fmt::print("documents    {}{}\n", report.documents, skipped);
  fmt::print("tokens       {} ({})\n", report.tokens, name_of(report.type));
  fmt::print(
      "read         {}{}\n",
      shown_byte_size(report.bytes_read),
      report.text_bytes == report.bytes_read
          ? std::string()
          : fmt::format(", unpacked {}", shown_byte_size(report.text_bytes)));
  fmt::print("written      {}\n", shown_byte_size(report.bytes_written));
  fmt::print(
      "time         {:.2f} s ({:.2f} MB/s, {:.1f} documents/s)\n",
      seconds,
      static_cast<double>(report.text_bytes) / 1e6 / seconds,
      static_cast<double>(report.documents) / seconds);
  fmt::print("peak memory  {}\n", shown_byte_size(peak_memory()));
  for (const auto& output : report.outputs) {
    fmt::print("wrote        {}.bin and .idx\n", output.string());
  }
}

} // namespace

int run_preprocess(const Arguments& arguments) {
  CommandLine line(
      "cairn preprocess [FLAGS…] --input FILE… --output-prefix PREFIX",
      "cairn preprocess --input wiki.jsonl.zst --output-prefix data/wiki \\\n"
      "    --tokenizer-type GPT2BPETokenizer --vocab-file vocab.json \\\n"
      "    --merge-file merges.txt --append-eod");
  Flags flags;
  flags.preprocess.workers = std::max<std::size_t>(1, allowed_cpus().size());
  CLI::App& app = line.app();
  app.description(
      "Turns texts into the token files that training reads, byte for byte as\n"
      "Megatron's tools/preprocess_data.py does. The files appear when all is\n"
      "done; a run that fails or is killed leaves none.");
  add_input_flags(app, flags);
  add_output_flags(app, flags);
  add_tokenizer_flags(app, flags.tokenizer);
  add_run_flags(app, flags);
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  // A file that is too large becomes an error instead of a signal.
  ::signal(SIGXFSZ, SIG_IGN);
  // The memory of a long line goes back to the system, not to a thread's
  // reserve.
  ::mallopt(M_MMAP_THRESHOLD, 4 << 20);

  const auto start = Clock::now();
  const Logger log;
  complete(flags, log);
  Reporter reporter(flags, log);
  const auto report = data::preprocess(
      flags.preprocess,
      log,
      [&](const data::PreprocessReport& now) { reporter(now); });
  reporter.done();
  const std::chrono::duration<double> time = Clock::now() - start;
  print_report(report, time.count());
  return exit_ok;
}

} // namespace cairn::cli
