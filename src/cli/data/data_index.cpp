#include "cli/data/data_command.h"
#include "cli/data/dataset_prefix.h"
#include "cli/data/index_report.h"
#include "cli/launch/run_length.h"
#include "cli/program/command_line.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/base/log.h>
#include <cairn/data/gpt_datasets.h>
#include <cairn/data/masked_datasets.h>

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

using data::Split;

/// The values of the flags, before they become options.
struct IndexFlags {
  std::string kind = "gpt";
  std::int64_t sequence_length = 0;
  std::uint32_t seed = 1234;
  data::DataSelection data{};
  RunLength length{};
  data::BertOptions bert{};
  data::T5Options t5{};
  double mask_probability = 0.15;
  double short_probability = 0.1;

  std::vector<std::string> data_path{};
  std::array<std::vector<std::string>, 3> split_paths{};
  std::string cache_path{};
  std::string tokenizer_file{};
  std::string rounding{};
  std::string naming = "megatron";
};

void add_data_flags(CLI::App& app, IndexFlags& flags) {
  app.add_option(
         "--data-path",
         flags.data_path,
         "prefix of .bin and .idx files, several, or weights and prefixes in "
         "turn")
      ->expected(1, -1);
  for (const Split split : data::all_splits) {
    app.add_option(
           fmt::format("--{}-data-path", data::name_of(split)),
           flags.split_paths[data::index_of(split)],
           fmt::format("the same for {} only", data::name_of(split)))
        ->expected(1, -1);
  }
  app.add_option(
         "--split",
         flags.data.split,
         "shares of training, validation and test in --data-path")
      ->capture_default_str();
  app.add_option(
         "--mid-level-dataset-surplus",
         flags.data.surplus,
         "how much larger than its share each dataset of a blend is made")
      ->check(at_least(0))
      ->capture_default_str();
  app.add_option(
         "--blend-rounding",
         flags.rounding,
         "ties in blends as Megatron has them on Arm (once) or x86 (twice); "
         "default: as on this machine")
      ->check(CLI::IsMember({"once", "twice"}));
}

void add_file_flags(CLI::App& app, IndexFlags& flags) {
  app.add_option(
      "--data-cache-path",
      flags.cache_path,
      "folder for the files; default: PREFIX/cache/GPTDataset_indices or the "
      "like, with Megatron-DeepSpeed's names index-cache beside PREFIX");
  app.add_option(
         "--index-naming",
         flags.naming,
         "whose names the files get; with megatron-deepspeed splits and blends "
         "are counted out as it does, and blends are not kept")
      ->check(CLI::IsMember({"megatron", "megatron-deepspeed"}))
      ->capture_default_str();
  app.add_option(
      "--tokenizer-description",
      flags.tokenizer_file,
      "a description.txt of Megatron's; files get the name that Megatron looks "
      "for with the same tokenizer");
}

void add_masked_flags(CLI::App& app, IndexFlags& flags) {
  app.add_option(
         "--mask-prob",
         flags.mask_probability,
         "bert, t5: share of tokens that are masked, for the names of files")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option(
         "--short-seq-prob",
         flags.short_probability,
         "bert, t5: share of samples that are shorter")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_flag(
      "!--bert-no-binary-head",
      flags.bert.classification_head,
      "bert: samples are no pairs");
  app.add_option(
         "--decoder-seq-length",
         flags.t5.decoder_sequence_length,
         "t5: tokens of the decoder, for the names of files")
      ->check(at_least(1))
      ->capture_default_str();
}

/// Refuses flags of another kind of dataset, which would change nothing.
void check_kind_flags(const CLI::App& app, const std::string& kind) {
  constexpr std::array<std::pair<const char*, std::string_view>, 5> kinds_of{{
      {"--mask-prob", "bert t5"},
      {"--short-seq-prob", "bert t5"},
      {"--bert-no-binary-head", "bert"},
      {"--decoder-seq-length", "t5"},
      {"--index-naming", "gpt"},
  }};
  for (const auto& [flag, kinds] : kinds_of) {
    if (app.count(flag) > 0 && kinds.find(kind) == std::string_view::npos) {
      throw ConfigError(
          {.what = fmt::format(
               "{} changes nothing with --dataset-type {}",
               flag,
               kind),
           .remedy = "leave it out, or give another --dataset-type"});
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

/// True when the run has data for validation or for the test.
bool evaluates(const data::DataSelection& data) {
  if (!data.blend) {
    return data.blend_per_split[1] || data.blend_per_split[2];
  }
  const auto shares = data::SplitShares::parse(data.split);
  return shares.range(Split::valid) || shares.range(Split::test);
}

void put_together(IndexFlags& flags) {
  data::DataSelection& data = flags.data;
  if (!flags.data_path.empty()) {
    data.blend = parse_blend(flags.data_path);
  }
  for (std::size_t i = 0; i < flags.split_paths.size(); ++i) {
    if (!flags.split_paths[i].empty()) {
      data.blend_per_split[i] = parse_blend(flags.split_paths[i]);
    }
  }
  data.samples = flags.length.sample_counts(evaluates(data));
  if (!flags.cache_path.empty()) {
    data.cache_path = flags.cache_path;
  }
  if (!flags.tokenizer_file.empty()) {
    data.tokenizer_description = read_file(flags.tokenizer_file, 1 << 20);
  }
  if (!flags.rounding.empty()) {
    data.blend_rounding = flags.rounding == "once" ? data::BlendRounding::once
                                                   : data::BlendRounding::twice;
  }
  if (flags.naming == "megatron-deepspeed") {
    data.index_naming = data::IndexNaming::megatron_deepspeed;
    if (!flags.tokenizer_file.empty()) {
      throw ConfigError(
          {.what = "Megatron-DeepSpeed's names do not depend on the tokenizer",
           .remedy = "leave out --tokenizer-description"});
    }
  }
}

template <typename Options>
IndexReport build_masked(const IndexFlags& flags, Options options) {
  options.seed = flags.seed;
  options.sequence_length = flags.sequence_length;
  options.short_sequence_probability = flags.short_probability;
  options.masking.probability = flags.mask_probability;
  return IndexReport::of(
      data::build_masked_indices(flags.data, options, Logger()));
}

IndexReport build(const IndexFlags& flags) {
  if (flags.kind == "bert") {
    return build_masked(flags, flags.bert);
  }
  if (flags.kind == "t5") {
    return build_masked(flags, flags.t5);
  }
  return IndexReport::of(data::build_gpt_datasets(
      {.data = flags.data,
       .sequence_length = flags.sequence_length,
       .seed = flags.seed},
      Logger()));
}

} // namespace

int run_data_index(const Arguments& arguments) {
  CommandLine line(
      "cairn data index [FLAGS…] --data-path PREFIX… --seq-length N",
      "cairn data index --data-path \"0.3 A 0.7 B\" --split 949,50,1 "
      "--seq-length 1024\n    --train-iters 10000 --global-batch-size 512 "
      "--data-cache-path cache");
  IndexFlags flags;
  CLI::App& app = line.app();
  app.description(
      "Builds the index files of a run ahead of it: the order of documents\n"
      "and samples, under Megatron's names. The run, or Megatron, then starts\n"
      "without building them. Give the flags that the run will have.");
  app.add_option(
         "--dataset-type",
         flags.kind,
         "what the run trains; bert and t5 read sentences")
      ->check(CLI::IsMember({"gpt", "bert", "t5"}))
      ->capture_default_str();
  add_data_flags(app, flags);
  app.add_option("--seq-length", flags.sequence_length, "tokens of a sample")
      ->check(at_least(1))
      ->required();
  flags.length.add_flags(app);
  app.add_option("--seed", flags.seed, "of the orders")->capture_default_str();
  add_masked_flags(app, flags);
  add_file_flags(app, flags);
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  ::signal(SIGXFSZ, SIG_IGN); // becomes an error instead of a signal
  flags.length.check_flags(app);
  check_kind_flags(app, flags.kind);
  put_together(flags);
  const IndexReport report = build(flags);
  report.require_a_sample(flags.sequence_length);
  report.print();
  report.require_files();
  return exit_ok;
}

} // namespace cairn::cli
