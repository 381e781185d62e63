// Megatron's tools/merge_mp_partitions.py, with its flags. Megatron's merges
// tensor ranks; this one turns any split into any other.

#include "cli/checkpoint/megatron_model_flags.h"
#include "cli/checkpoint/run_conversion.h"
#include "cli/program/command_line.h"

#include <cairn/base/error.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

namespace cairn::cli {
namespace {

using model::ModelFamily;

ModelFamily family_from(const std::string& type) {
  return type == "BERT" ? ModelFamily::bert
      : type == "T5"    ? ModelFamily::t5
                        : ModelFamily::gpt2;
}

} // namespace

int run_merge_mp_partitions(const Arguments& arguments) {
  CommandLine line(
      "cairn merge-mp-partitions [FLAGS…] --load DIR --save DIR",
      "cairn merge-mp-partitions --model-type BERT "
      "--tensor-model-parallel-size 2\n"
      "      --target-pipeline-model-parallel-size 2 --load bert --save "
      "bert/merged");
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
  CLI::App& app = line.app();
  app.description(
      "Cuts a checkpoint of Megatron's anew for another number of tensor and\n"
      "pipeline ranks; without targets, for one rank. `cairn convert` does "
      "the same,\nand more.");
  app.add_option("--load", load, "the checkpoint, or a folder of several")
      ->type_name("DIR")
      ->required();
  app.add_option("--save", save, "must not exist yet, or be empty")
      ->type_name("DIR")
      ->required();
  app.add_option("--model-type", type, "that it is: another is an error")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"GPT", "BERT", "T5"}));
  app.add_option(
         "--tensor-model-parallel-size",
         tensor,
         "that it has: another is an error")
      ->type_name("INT")
      ->check(at_least(1));
  app.add_option(
         "--pipeline-model-parallel-size",
         pipeline,
         "that it has: another is an error")
      ->type_name("INT")
      ->check(at_least(1));
  app.add_option(
         "--target-tensor-model-parallel-size",
         options.split.tensor,
         "that it gets")
      ->check(at_least(1));
  app.add_option(
         "--target-pipeline-model-parallel-size",
         options.split.pipeline,
         "that it gets")
      ->check(at_least(1));
  app.add_option(
         "--ckpt-step",
         options.iteration,
         "another iteration than the newest")
      ->type_name("INT")
      ->check(at_least(0));
  app.add_option(
         "--make-vocab-size-divisible-by",
         options.vocabulary_multiple,
         "times the tensor ranks: padding")
      ->check(at_least(1));
  auto* const half = app.add_flag("--fp16", fp16, "write the weights in fp16");
  app.add_flag("--bf16", bf16, "write the weights in bf16")->excludes(half);
  app.add_flag(
      "--overwrite",
      options.overwrite,
      "replace a checkpoint that is there");
  model.add_to(app);
  std::array<std::string, 5> not_needed;
  std::size_t next = 0;
  for (const char* flag :
       {"--tokenizer-type",
        "--vocab-file",
        "--merge-file",
        "--seq-length",
        "--micro-batch-size"}) {
    app.add_option(flag, not_needed[next++], "not needed here")
        ->group("Of Megatron's command line");
  }
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  options.input = load;
  options.output = save;
  if (!type.empty()) {
    options.family = family_from(type);
  }
  if (tensor) {
    model.expect("tensor_model_parallel_size", *tensor);
  }
  if (pipeline) {
    model.expect("pipeline_model_parallel_size", *pipeline);
  }
  options.megatron = model.reading();
  if (fp16 || bf16) {
    options.type = fp16 ? at::kHalf : at::kBFloat16;
  }
  return run_conversion(std::move(options));
}

} // namespace cairn::cli
