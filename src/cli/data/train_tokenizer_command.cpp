#include "base/internal/cpu.h"
#include "base/internal/progress.h"
#include "cli/data/count_words.h"
#include "cli/data/jsonl_name.h"
#include "cli/data/peak_memory.h"
#include "cli/program/byte_size.h"
#include "cli/program/command.h"
#include "cli/program/command_line.h"
#include "data/internal/byte_stream.h"
#include "text/internal/bpe_trainer.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;

struct TrainTokenizerFlags {
  std::vector<std::string> paths; ///< the inputs, and then the folder
  text::BpeTrainerOptions trainer;
  CountWordsOptions counting{
      .threads = static_cast<std::size_t>(CpuInfo::detect().logical_cpus)};
  std::string format;
};

void add_flags(CLI::App& app, TrainTokenizerFlags& flags) {
  app.add_option(
         "PATHS",
         flags.paths,
         "INPUT…: texts to learn from, plain or packed (.gz .zst .xz .bz2), "
         "- for standard input; then OUTDIR: a folder, new or empty, for "
         "vocab.json, merges.txt and tokenizer.json")
      ->type_name("");
  app.add_option(
         "--vocab-size",
         flags.trainer.vocab_size,
         "entries in all (default 52000)")
      ->check(CLI::Range(1, std::numeric_limits<std::int32_t>::max()));
  app.add_option(
         "--min-frequency",
         flags.trainer.min_frequency,
         "merge no pair that occurs less often (default 2)")
      ->check(CLI::Range(
          std::int64_t{0},
          std::numeric_limits<std::int64_t>::max()));
  app.add_option(
         "--special-tokens",
         flags.trainer.special_tokens,
         "get the first ids (default <|endoftext|>); several with commas or "
         "with the flag again, \"\" for none")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option(
         "--input-format",
         flags.format,
         "text (line by line) or jsonl (an object a line); else by name: jsonl "
         "for .jsonl, .json and .ndjson; without an ending, by the first byte; "
         "text for all others")
      ->check(CLI::IsMember({"text", "jsonl"}))
      ->type_name("TEXT");
  app.add_option(
      "--json-key,--json-keys",
      flags.counting.json_key,
      "where JSONL has its text (default text)");
  app.add_option(
         "--workers",
         flags.counting.threads,
         "threads that count words (default: all cores)")
      ->check(CLI::Range(1, 1024));
}

/// True when the file begins with `{`, so it holds JSON objects. Only this can
/// tell for a name without an ending (WikiExtractor's `wiki-en/all`, say).
bool holds_objects(const std::string& file) {
  if (file == "-" || !fs::is_regular_file(file) ||
      !unpacked_name(file).extension().empty()) {
    return false;
  }
  char first = 0;
  if (data::open_input(file)->read({&first, 1}) == 0 || first != '{') {
    return false;
  }
  fmt::print(
      stderr,
      "{} begins with a JSON object and is taken as JSONL; --input-format text "
      "takes it as it is\n",
      file);
  return true;
}

std::vector<WordSource> sources_of(
    const std::vector<std::string>& files,
    const std::string& format) {
  std::vector<WordSource> sources;
  for (const std::string& file : files) {
    sources.push_back(
        {file,
         format.empty() ? is_jsonl_name(file) || holds_objects(file)
                        : format == "jsonl"});
  }
  return sources;
}

/// Stored bytes of all sources; 0 when one of them is not a file.
std::uint64_t stored_bytes(const std::vector<WordSource>& sources) {
  std::uint64_t sum = 0;
  for (const WordSource& source : sources) {
    std::error_code error;
    const auto size = fs::file_size(source.file, error);
    if (error) {
      return 0;
    }
    sum += size;
  }
  return sum;
}

void require_effect_of_json_key(
    const CLI::App& app,
    const std::vector<WordSource>& sources) {
  if (app.count("--json-key") > 0 &&
      std::ranges::none_of(sources, &WordSource::is_jsonl)) {
    throw ConfigError(
        {.what = "--json-key is for JSONL, and all inputs are plain text",
         .remedy = "add --input-format jsonl if they are not"});
  }
}

text::WordCounter counted_words(
    const std::vector<WordSource>& sources,
    const CountWordsOptions& options) {
  Progress bar(
      {.label = "counting words", .total = stored_bytes(sources), .unit = "B"});
  auto words = count_words(sources, options, [&](std::uint64_t bytes) {
    bar.advance(bytes);
  });
  bar.done();
  if (words.total() == 0) {
    throw DataError({.what = "there is no text to learn from"});
  }
  return words;
}

text::TrainedBpe learned_merges(
    const text::WordCounter& words,
    const text::BpeTrainerOptions& options) {
  Progress bar(
      {.label = "merging pairs",
       .total = options.vocab_size - text::first_merged_id(options),
       .unit = "merges"});
  auto trained = text::train_bpe(words, options, [&] { bar.advance(); });
  bar.done();
  return trained;
}

void print_summary(
    const text::TrainedBpe& trained,
    const text::WordCounter& words,
    const fs::path& folder,
    Clock::duration time) {
  fmt::print(
      "{} entries and {} merges from {} words, {} of them distinct, in {}\n"
      "{:.1f} s, peak memory {}\n",
      trained.tokens.size(),
      trained.merges.size(),
      words.total(),
      words.distinct(),
      folder.string(),
      std::chrono::duration<double>(time).count(),
      shown_byte_size(peak_memory()));
}

} // namespace

int run_train_tokenizer(const Arguments& arguments) {
  CommandLine line(
      "cairn train-tokenizer INPUT… OUTDIR [FLAGS…]",
      "cairn train-tokenizer corpus.jsonl.gz more.txt my-tokenizer "
      "--vocab-size 52000");
  TrainTokenizerFlags flags;
  CLI::App& app = line.app();
  add_flags(app, flags);
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  if (flags.paths.size() < 2) {
    throw ConfigError(
        {.what = "an INPUT and an OUTDIR are needed",
         .remedy = "see `cairn train-tokenizer --help`"});
  }
  const fs::path folder = flags.paths.back();
  flags.paths.pop_back();
  const auto sources = sources_of(flags.paths, flags.format);
  require_effect_of_json_key(app, sources);
  text::BpeTrainerOptions& options = flags.trainer;
  std::erase(options.special_tokens, "");
  text::first_merged_id(options); // refuses what cannot be met
  text::prepare_tokenizer_folder(folder);

  const auto start = Clock::now();
  const auto words = counted_words(sources, flags.counting);
  const auto trained = learned_merges(words, options);
  text::write_tokenizer(trained, folder);
  print_summary(trained, words, folder, Clock::now() - start);
  if (trained.tokens.size() < options.vocab_size) {
    fmt::print(
        stderr,
        "note: fewer than {} entries, as no other pair occurs {} times\n",
        options.vocab_size,
        options.min_frequency);
  }
  return exit_ok;
}

} // namespace cairn::cli
