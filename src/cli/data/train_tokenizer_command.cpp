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

} // namespace

int run_train_tokenizer(const Arguments& arguments) {
  std::vector<std::string> paths;
  text::BpeTrainerOptions options;
  CountWordsOptions counting{
      .threads = static_cast<std::size_t>(CpuInfo::detect().logical_cpus)};
  std::string format;
  CommandLine line(
      "cairn train-tokenizer INPUT… OUTDIR [FLAGS…]",
      "cairn train-tokenizer corpus.jsonl.gz more.txt my-tokenizer "
      "--vocab-size 52000");
  CLI::App& app = line.app();
  app.add_option(
         "PATHS",
         paths,
         "INPUT…: texts to learn from, plain or packed (.gz .zst .xz .bz2), "
         "- for standard input; then OUTDIR: a folder, new or empty, for "
         "vocab.json, merges.txt and tokenizer.json")
      ->type_name("");
  app.add_option(
         "--vocab-size",
         options.vocab_size,
         "entries in all (default 52000)")
      ->check(CLI::Range(1, std::numeric_limits<std::int32_t>::max()));
  app.add_option(
         "--min-frequency",
         options.min_frequency,
         "merge no pair that occurs less often (default 2)")
      ->check(CLI::Range(
          std::int64_t{0},
          std::numeric_limits<std::int64_t>::max()));
  app.add_option(
         "--special-tokens",
         options.special_tokens,
         "get the first ids (default <|endoftext|>); several with commas or "
         "with the flag again, \"\" for none")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option(
         "--input-format",
         format,
         "text (line by line) or jsonl (an object a line); else by name: jsonl "
         "for .jsonl, .json and .ndjson; without an ending, by the first byte; "
         "text for all others")
      ->check(CLI::IsMember({"text", "jsonl"}))
      ->type_name("TEXT");
  const CLI::Option* const json_key = app.add_option(
      "--json-key,--json-keys",
      counting.json_key,
      "where JSONL has its text (default text)");
  app.add_option(
         "--workers",
         counting.threads,
         "threads that count words (default: all cores)")
      ->check(CLI::Range(1, 1024));
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  if (paths.size() < 2) {
    throw ConfigError(
        {.what = "an INPUT and an OUTDIR are needed",
         .remedy = "see `cairn train-tokenizer --help`"});
  }
  const fs::path folder = paths.back();
  paths.pop_back();
  const auto sources = sources_of(paths, format);
  if (json_key->count() > 0 &&
      std::none_of(sources.begin(), sources.end(), [](const auto& source) {
        return source.is_jsonl;
      })) {
    throw ConfigError(
        {.what = "--json-key is for JSONL, and all inputs are plain text",
         .remedy = "add --input-format jsonl if they are not"});
  }
  std::erase(options.special_tokens, "");
  const std::size_t first = text::first_merged_id(options);
  text::prepare_tokenizer_folder(folder);

  const auto start = std::chrono::steady_clock::now();
  Progress reading(
      {.label = "counting words", .total = stored_bytes(sources), .unit = "B"});
  const auto words = count_words(sources, counting, [&](std::uint64_t bytes) {
    reading.advance(bytes);
  });
  reading.done();
  if (words.total() == 0) {
    throw DataError({.what = "there is no text to learn from"});
  }

  Progress merging(
      {.label = "merging pairs",
       .total = options.vocab_size - first,
       .unit = "merges"});
  const auto trained =
      text::train_bpe(words, options, [&] { merging.advance(); });
  merging.done();
  text::write_tokenizer(trained, folder);

  fmt::print(
      "{} entries and {} merges from {} words, {} of them distinct, in {}\n"
      "{:.1f} s, peak memory {}\n",
      trained.tokens.size(),
      trained.merges.size(),
      words.total(),
      words.distinct(),
      folder.string(),
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count(),
      shown_byte_size(peak_memory()));
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
