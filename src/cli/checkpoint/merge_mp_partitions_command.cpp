// Megatron's tools/merge_mp_partitions.py, with its flags. Megatron's merges
// tensor ranks; this one turns any split into any other.

#include "cli/checkpoint/megatron_model_flags.h"
#include "cli/checkpoint/run_conversion.h"
#include "cli/program/command_line.h"

#include <cairn/base/error.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace cairn::cli {
namespace {

using model::ModelFamily;

ModelFamily family_from(const std::string& type) {
  return type == "BERT" ? ModelFamily::bert
      : type == "T5"    ? ModelFamily::t5
                        : ModelFamily::gpt2;
}

/// The values of the flags, before they become options.
struct MergeFlags {
  checkpoints::ConvertOptions options{
      .from = checkpoints::CheckpointFormat::megatron,
      .to = checkpoints::CheckpointFormat::megatron};
  MegatronModelFlags model;
  std::string load;
  std::string save;
  std::string type;
  std::optional<std::int64_t> tensor;
  std::optional<std::int64_t> pipeline;
  bool fp16 = false;
  bool bf16 = false;
  std::array<std::string, 5> not_needed;
};

void add_source_flags(CLI::App& app, MergeFlags& flags) {
  app.add_option("--load", flags.load, "the checkpoint, or a folder of several")
      ->type_name("DIR")
      ->required();
  app.add_option("--save", flags.save, "must not exist yet, or be empty")
      ->type_name("DIR")
      ->required();
  app.add_option("--model-type", flags.type, "that it is: another is an error")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"GPT", "BERT", "T5"}));
  app.add_option(
         "--tensor-model-parallel-size",
         flags.tensor,
         "that it has: another is an error")
      ->type_name("INT")
      ->check(at_least(1));
  app.add_option(
         "--pipeline-model-parallel-size",
         flags.pipeline,
         "that it has: another is an error")
      ->type_name("INT")
      ->check(at_least(1));
}

void add_target_flags(CLI::App& app, MergeFlags& flags) {
  app.add_option(
         "--target-tensor-model-parallel-size",
         flags.options.split.tensor,
         "that it gets")
      ->check(at_least(1));
  app.add_option(
         "--target-pipeline-model-parallel-size",
         flags.options.split.pipeline,
         "that it gets")
      ->check(at_least(1));
  app.add_option(
         "--ckpt-step",
         flags.options.iteration,
         "another iteration than the newest")
      ->type_name("INT")
      ->check(at_least(0));
  app.add_option(
         "--make-vocab-size-divisible-by",
         flags.options.vocabulary_multiple,
         "times the tensor ranks: padding")
      ->check(at_least(1));
  auto* const half =
      app.add_flag("--fp16", flags.fp16, "write the weights in fp16");
  app.add_flag("--bf16", flags.bf16, "write the weights in bf16")
      ->excludes(half);
  app.add_flag(
      "--overwrite",
      flags.options.overwrite,
      "replace a checkpoint that is there");
}

/// Flags that scripts for Megatron's tool give, and that change nothing.
void add_unneeded_flags(CLI::App& app, MergeFlags& flags) {
  std::size_t next = 0;
  for (const char* flag :
       {"--tokenizer-type",
        "--vocab-file",
        "--merge-file",
        "--seq-length",
        "--micro-batch-size"}) {
    app.add_option(flag, flags.not_needed[next++], "not needed here")
        ->group("Of Megatron's command line");
  }
}

checkpoints::ConvertOptions options_of(const MergeFlags& flags) {
  checkpoints::ConvertOptions options = flags.options;
  options.input = flags.load;
  options.output = flags.save;
  if (!flags.type.empty()) {
    options.family = family_from(flags.type);
  }
  MegatronModelFlags model = flags.model;
  if (flags.tensor) {
    model.expect("tensor_model_parallel_size", *flags.tensor);
  }
  if (flags.pipeline) {
    model.expect("pipeline_model_parallel_size", *flags.pipeline);
  }
  options.megatron = model.reading();
  if (flags.fp16 || flags.bf16) {
    options.type = flags.fp16 ? at::kHalf : at::kBFloat16;
  }
  return options;
}

} // namespace

int run_merge_mp_partitions(const Arguments& arguments) {
  CommandLine line(
      "cairn merge-mp-partitions [FLAGS…] --load DIR --save DIR",
      "cairn merge-mp-partitions --model-type BERT "
      "--tensor-model-parallel-size 2\n"
      "      --target-pipeline-model-parallel-size 2 --load bert --save "
      "bert/merged");
  MergeFlags flags;
  CLI::App& app = line.app();
  app.description(
      "Cuts a checkpoint of Megatron's anew for another number of tensor and\n"
      "pipeline ranks; without targets, for one rank. `cairn convert` does "
      "the same,\nand more.");
  add_source_flags(app, flags);
  add_target_flags(app, flags);
  flags.model.add_to(app);
  add_unneeded_flags(app, flags);
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  return run_conversion(options_of(flags));
}

} // namespace cairn::cli
