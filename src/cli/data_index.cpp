#include "cli/byte_size.h"
#include "cli/command_line.h"
#include "cli/data_command.h"
#include "cli/dataset_prefix.h"
#include "cli/peak_memory.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/base/log.h>
#include <cairn/data/gpt_datasets.h>

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::cli {
namespace {

using data::Split;

/// How long the run will be, from which Megatron derives the samples of each
/// split.
struct RunLength {
  std::optional<std::int64_t> train_samples;
  std::optional<std::int64_t> train_iters;
  std::int64_t global_batch_size = 0;
  std::int64_t eval_iters = 100;
  std::int64_t eval_interval = 1000;
  bool full_validation = false;

  data::SampleCounts sample_counts(bool evaluates) const {
    if (!train_samples && !train_iters) {
      return {};
    }
    if (train_samples && (!evaluates || eval_iters == 0)) {
      data::SampleCounts counts{*train_samples, 0, 0};
      if (full_validation) {
        counts[1].reset();
      }
      return counts;
    }
    if (global_batch_size < 1) {
      throw ConfigError(
          {.what = "--global-batch-size is needed to count samples",
           .remedy = "give it, or neither --train-samples nor --train-iters "
                     "for one epoch"});
    }
    const std::int64_t iterations =
        train_samples ? *train_samples / global_batch_size : *train_iters;
    const std::int64_t evaluations =
        (iterations / eval_interval + 1) * eval_iters;
    data::SampleCounts counts{
        train_samples ? *train_samples : iterations * global_batch_size,
        evaluations * global_batch_size,
        eval_iters * global_batch_size};
    if (full_validation) {
      counts[1].reset();
    }
    return counts;
  }
};

/// Without a length of the run there is nothing that these could change.
void check_length_flags(const CLI::App& app, const RunLength& length) {
  for (const char* flag :
       {"--global-batch-size", "--eval-iters", "--eval-interval"}) {
    if (!length.train_samples && !length.train_iters && app.count(flag) > 0) {
      throw ConfigError(
          {.what = fmt::format(
               "{} changes nothing without the length of the run",
               flag),
           .remedy = "give --train-samples or --train-iters as well, or leave "
                     "it out for one epoch"});
    }
  }
}

data::Blend parse_blend(const std::vector<std::string>& words) {
  data::Blend blend = data::Blend::parse(words);
  for (std::string& prefix : blend.prefixes) {
    prefix = dataset_prefix(prefix).string();
  }
  return blend;
}

std::string_view origin_name(data::IndexCache::Origin origin) {
  switch (origin) {
    case data::IndexCache::Origin::file:
      return "was there";
    case data::IndexCache::Origin::built:
      return "built";
    case data::IndexCache::Origin::built_in_memory:
      break;
  }
  return "not kept";
}

void print_table(const data::GptDatasets& built) {
  std::vector<std::array<std::string, 9>> rows{
      {"dataset",
       "split",
       "documents",
       "tokens",
       "epochs",
       "samples",
       "index",
       "seconds",
       ""}};
  for (const data::GptPart& part : built.parts) {
    rows.push_back(
        {part.prefix,
         std::string(data::name_of(part.split)),
         fmt::format("{}", part.documents.size()),
         fmt::format("{}", part.plan.tokens_per_epoch),
         fmt::format("{}", part.plan.epochs),
         fmt::format("{}", part.plan.samples),
         shown_byte_size(part.bytes),
         fmt::format("{:.3f}", part.seconds),
         std::string(origin_name(part.origin))});
  }
  std::array<std::size_t, 9> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const auto& row : rows) {
    fmt::print("{:<{}}  {:<{}}", row[0], widths[0], row[1], widths[1]);
    for (std::size_t i = 2; i < 8; ++i) {
      fmt::print("  {:>{}}", row[i], widths[i]);
    }
    fmt::print("{}{}\n", row[8].empty() ? "" : "  ", row[8]);
  }
}

void print_summary(const data::GptDatasets& built) {
  fmt::print("\n");
  bool blended = false;
  for (const Split split : data::all_splits) {
    if (const auto& dataset = built[split]) {
      fmt::print("{:<9} {} samples", data::name_of(split), dataset->size());
      if (dataset->blended()) {
        blended = true;
        fmt::print(", blended from {}", dataset->datasets().size());
      }
      fmt::print("\n");
    }
  }
  std::set<std::string> folders;
  for (const data::GptPart& part : built.parts) {
    if (!part.file.empty()) {
      folders.insert(part.file.parent_path().string());
    }
  }
  for (const std::string& folder : folders) {
    fmt::print("files in  {}\n", folder);
  }
  if (blended) {
    fmt::print("blending  {:.3f} s\n", built.blend_seconds);
  }
  fmt::print(
      "memory    {} at most\nchecksum  {:016x}\n",
      shown_byte_size(peak_memory()),
      built.checksum());
}

/// Whether the run has data for validation or for the test.
bool evaluates(const data::GptDataOptions& options) {
  const auto& paths = options.blend_per_split;
  if (!options.blend) {
    return paths[1] || paths[2];
  }
  const auto shares = data::SplitShares::parse(options.split);
  return shares.range(Split::valid) || shares.range(Split::test);
}

void require_a_sample(
    const data::GptDatasets& built,
    std::int64_t sequence_length) {
  std::int64_t most = 0;
  for (const data::GptPart& part : built.parts) {
    most = std::max(most, part.plan.tokens_per_epoch);
    if (part.plan.samples > 0) {
      return;
    }
  }
  if (built.parts.empty()) { // none was asked for
    return;
  }
  throw DataError(
      {.what = "the data is too short for a single sample",
       .values = fmt::format(
           "{} tokens at most in a split, --seq-length {}",
           most,
           sequence_length),
       .remedy = "lower --seq-length"});
}

void require_files(const data::GptDatasets& built) {
  const bool kept = built.blends_kept &&
      std::none_of(built.parts.begin(),
                   built.parts.end(),
                   [](const data::GptPart& part) {
                     return part.origin ==
                         data::IndexCache::Origin::built_in_memory;
                   });
  if (!kept) {
    throw DataError(
        {.what = "not all index files could be kept",
         .remedy = "see the warnings above; --data-cache-path names another "
                   "folder"});
  }
}

} // namespace

int run_data_index(const Arguments& arguments) {
  CommandLine line(
      "cairn data index [FLAGS…] --data-path PREFIX… --seq-length N",
      "cairn data index --data-path \"0.3 A 0.7 B\" --split 949,50,1 "
      "--seq-length 1024\n    --train-iters 10000 --global-batch-size 512 "
      "--data-cache-path cache");
  data::GptDataOptions options;
  RunLength length;
  std::vector<std::string> data_path;
  std::array<std::vector<std::string>, 3> split_paths;
  std::string cache_path;
  std::string tokenizer_file;
  std::string rounding;
  CLI::App& app = line.app();
  app.description(
      "Builds the index files of a GPT run ahead of it: the order of "
      "documents\n"
      "and samples, under Megatron's names. The run, or Megatron, then starts\n"
      "without building them. Give the flags that the run will have.");
  app.add_option(
         "--data-path",
         data_path,
         "prefix of .bin and .idx files, several, or weights and prefixes in "
         "turn")
      ->expected(1, -1);
  for (const Split split : data::all_splits) {
    app.add_option(
           fmt::format("--{}-data-path", data::name_of(split)),
           split_paths[data::index_of(split)],
           fmt::format("the same for {} only", data::name_of(split)))
        ->expected(1, -1);
  }
  app.add_option(
         "--split",
         options.split,
         "shares of training, validation and test in --data-path")
      ->capture_default_str();
  app.add_option("--seq-length", options.sequence_length, "tokens of a sample")
      ->required();
  app.add_option("--train-samples", length.train_samples, "to train on")
      ->check(CLI::NonNegativeNumber);
  app.add_option(
         "--train-iters",
         length.train_iters,
         "steps of training instead; neither: one epoch")
      ->check(CLI::NonNegativeNumber)
      ->excludes("--train-samples");
  app.add_option(
         "--global-batch-size",
         length.global_batch_size,
         "samples of a step")
      ->check(CLI::PositiveNumber);
  app.add_option("--eval-iters", length.eval_iters, "batches per evaluation")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option(
         "--eval-interval",
         length.eval_interval,
         "steps between evaluations")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag(
      "--full-validation",
      length.full_validation,
      "one epoch for validation");
  app.add_option("--seed", options.seed, "of the orders")
      ->capture_default_str();
  app.add_option(
         "--mid-level-dataset-surplus",
         options.surplus,
         "how much larger than its share each dataset of a blend is made")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option(
         "--blend-rounding",
         rounding,
         "ties in blends as Megatron has them on Arm (once) or x86 (twice); "
         "default: as on this machine")
      ->check(CLI::IsMember({"once", "twice"}));
  app.add_option(
      "--data-cache-path",
      cache_path,
      "folder for the files; default: PREFIX/cache/GPTDataset_indices");
  app.add_option(
      "--tokenizer-description",
      tokenizer_file,
      "a description.txt of Megatron's; files get the name that Megatron looks "
      "for with the same tokenizer");
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  ::signal(SIGXFSZ, SIG_IGN); // told as an error, not by a signal
  check_length_flags(app, length);
  if (!data_path.empty()) {
    options.blend = parse_blend(data_path);
  }
  for (std::size_t i = 0; i < split_paths.size(); ++i) {
    if (!split_paths[i].empty()) {
      options.blend_per_split[i] = parse_blend(split_paths[i]);
    }
  }
  options.samples = length.sample_counts(evaluates(options));
  if (!cache_path.empty()) {
    options.cache_path = cache_path;
  }
  if (!tokenizer_file.empty()) {
    options.tokenizer_description = read_file(tokenizer_file, 1 << 20);
  }
  if (!rounding.empty()) {
    options.blend_rounding = rounding == "once" ? data::BlendRounding::once
                                                : data::BlendRounding::twice;
  }
  const auto built = data::build_gpt_datasets(options, Logger());
  require_a_sample(built, options.sequence_length);
  print_table(built);
  print_summary(built);
  require_files(built);
  return exit_ok;
}

} // namespace cairn::cli
