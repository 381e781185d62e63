#include "cli/checkpoint/megatron_model_flags.h"
#include "cli/checkpoint/run_conversion.h"
#include "cli/program/command_line.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <map>
#include <string>
#include <utility>

namespace cairn::cli {
namespace {

using checkpoints::CheckpointFormat;

const std::map<std::string, at::ScalarType> dtypes{
    {"fp32", at::kFloat},
    {"fp16", at::kHalf},
    {"bf16", at::kBFloat16}};

const std::map<std::string, checkpoints::MegatronNames> names_of_flag{
    {"core", checkpoints::MegatronNames::core},
    {"core-local", checkpoints::MegatronNames::core_local},
    {"legacy", checkpoints::MegatronNames::legacy}};

/// The values of the flags, before they become options.
struct ConvertFlags {
  checkpoints::ConvertOptions options;
  MegatronModelFlags model;
  std::string input;
  std::string output;
  std::string from;
  std::string to;
  std::string dtype;
  std::string tokenizer;
  std::string heads = "auto";
  std::string names;
  std::string format = "torch";
  std::string deepspeed;
  std::string output_heads = "apart";
};

const std::map<std::string, checkpoints::MegatronDeepSpeed> deepspeed_of_flag{
    {"pipeline", checkpoints::MegatronDeepSpeed::pipeline},
    {"no-pipeline", checkpoints::MegatronDeepSpeed::no_pipeline}};

void add_file_flags(CLI::App& app, ConvertFlags& flags) {
  app.add_option("--input", flags.input, "a checkpoint, or a folder of several")
      ->type_name("PATH")
      ->required();
  app.add_option("--output", flags.output, "must not exist yet, or be empty")
      ->type_name("PATH")
      ->required();
  app.add_option("--to", flags.to, "what to write")
      ->type_name("FORMAT")
      ->check(CLI::IsMember(
          {"native", "deepspeed", "megatron", "huggingface", "torch", "dcp"}))
      ->required();
  app.add_option("--from", flags.from, "what the input is")
      ->type_name("FORMAT")
      ->check(CLI::IsMember(
          {"native",
           "deepspeed",
           "megatron",
           "huggingface",
           "torch",
           "dcp",
           "safetensors"}));
  app.add_option(
         "--tag",
         flags.options.tag,
         "another than the newest: native, deepspeed, dcp")
      ->type_name("TAG");
  app.add_option(
         "--iteration",
         flags.options.iteration,
         "another than the newest: megatron")
      ->type_name("INT")
      ->check(at_least(0));
}

void add_weight_flags(CLI::App& app, ConvertFlags& flags) {
  app.add_option("--dtype", flags.dtype, "of the weights; else as they are")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}));
  app.add_flag(
      "--weights-only",
      flags.options.weights_only,
      "leave optimizer states behind");
  app.add_flag(
      "--overwrite",
      flags.options.overwrite,
      "replace a checkpoint that is there");
}

void add_megatron_flags(CLI::App& app, ConvertFlags& flags) {
  const std::string group = "To megatron, megatron-deepspeed";
  app.add_option(
         "--megatron-names",
         flags.names,
         "of the weights: core (GPT, Llama: for --transformer-impl "
         "transformer_engine), core-local (for local), legacy; if not said, "
         "those of Megatron's input, else core where there is one")
      ->type_name("NAMES")
      ->check(CLI::IsMember(names_of_flag))
      ->group(group);
  app.add_option(
         "--ckpt-format",
         flags.format,
         "torch: a file for each rank; torch_dist: for any number of ranks, "
         "with either --transformer-impl")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"torch", "torch_dist"}))
      ->group(group);
  app.add_flag(
         "--use-distributed-optimizer",
         flags.options.megatron_distributed_optimizer,
         "optimizer states for runs that give this flag")
      ->group(group);
  app.add_option(
         "--tensor-model-parallel-size",
         flags.options.split.tensor,
         "tensor ranks to cut it for")
      ->check(at_least(1))
      ->group(group);
  app.add_option(
         "--pipeline-model-parallel-size",
         flags.options.split.pipeline,
         "pipeline stages to cut it for")
      ->check(at_least(1))
      ->group(group);
  app.add_option(
         "--expert-model-parallel-size",
         flags.options.split.expert,
         "ranks that divide the experts to cut it for; in torch_dist, the "
         "optimizer's states are for 1 or for more of them")
      ->check(at_least(1))
      ->group(group);
  app.add_option(
         "--pipeline-model-parallel-split-rank",
         flags.options.split.encoder_stages,
         "stages of T5's encoder; half of them if not said")
      ->check(at_least(1))
      ->group(group);
  app.add_option(
         "--make-vocab-size-divisible-by",
         flags.options.vocabulary_multiple,
         "times the tensor ranks: padding")
      ->check(at_least(1))
      ->group(group);
}

void add_flags_of_other_formats(CLI::App& app, ConvertFlags& flags) {
  app.add_option(
         "--zero-stage",
         flags.options.zero_stage,
         "0 to 3; 2 with an "
         "optimizer, else 0")
      ->type_name("INT")
      ->check(CLI::Range(0, 3))
      ->group("To deepspeed");
  app.add_option(
         "--zero-ranks",
         flags.options.zero_ranks,
         "data-parallel ranks")
      ->check(at_least(1))
      ->group("To deepspeed");
  app.add_flag(
         "--universal",
         flags.options.universal,
         "a universal checkpoint: for any number of ranks and any stage")
      ->group("To deepspeed");
  app.add_option(
         "--megatron-deepspeed",
         flags.deepspeed,
         "as Megatron-DeepSpeed saves: pipeline (its default), or no-pipeline "
         "for its --no-pipeline-parallel; else with the names of the input")
      ->type_name("KIND")
      ->check(CLI::IsMember(deepspeed_of_flag))
      ->group("To deepspeed");
  app.add_option(
         "--output-qkv-order",
         flags.output_heads,
         "with --megatron-deepspeed: grouped for its versions up to October "
         "2024, apart for those since then")
      ->type_name("ORDER")
      ->check(CLI::IsMember({"apart", "grouped"}))
      ->group("To deepspeed");
  app.add_option(
         "--optimizer",
         flags.options.optimizer,
         "its name, where states do not show it: adam, lamb instead of adamw")
      ->type_name("NAME")
      ->group("To native");
  app.add_option(
         "--tokenizer",
         flags.tokenizer,
         "folder whose tokenizer files are copied along")
      ->type_name("DIR")
      ->group("To huggingface");
}

void add_model_flags(CLI::App& app, ConvertFlags& flags) {
  app.add_option(
         "--qkv-order",
         flags.heads,
         "of Megatron's files, where they do not tell: apart is all queries, "
         "all keys, all values; grouped is head after head")
      ->type_name("ORDER")
      ->check(CLI::IsMember({"auto", "apart", "grouped"}));
  app.add_flag(
      "--keep-padding",
      flags.options.megatron.keep_padding,
      "count the padding of Megatron's vocabulary as words: a run that goes on "
      "needs its rows");
  flags.model.add_to(app);
}

/// Refuses flags for another format, which would do nothing.
void require_format(
    const CLI::App& app,
    std::initializer_list<const char*> flags,
    CheckpointFormat wanted,
    CheckpointFormat to) {
  for (const char* flag : flags) {
    if (app.count(flag) > 0 && to != wanted) {
      throw ConfigError(
          {.what = fmt::format(
               "{} goes with --to {} only",
               flag,
               checkpoints::name_of(wanted))});
    }
  }
}

/// Refuses a flag that does nothing without another one.
void refuse_alone(const CLI::App& app, const char* flag, const char* other) {
  if (app.count(flag) > 0) {
    throw ConfigError({.what = fmt::format("{} goes with {}", flag, other)});
  }
}

/// Refuses all flags that are for another format than `to`.
void require_formats(const CLI::App& app, CheckpointFormat to) {
  require_format(
      app,
      {"--megatron-names", "--ckpt-format", "--use-distributed-optimizer"},
      CheckpointFormat::megatron,
      to);
  require_format(
      app,
      {"--zero-stage", "--zero-ranks", "--universal", "--megatron-deepspeed"},
      CheckpointFormat::deepspeed,
      to);
  if (app.count("--megatron-deepspeed") == 0) {
    require_format(
        app,
        {"--tensor-model-parallel-size",
         "--pipeline-model-parallel-size",
         "--expert-model-parallel-size",
         "--pipeline-model-parallel-split-rank",
         "--make-vocab-size-divisible-by"},
        CheckpointFormat::megatron,
        to);
    refuse_alone(app, "--output-qkv-order", "--megatron-deepspeed");
  }
  if (app.count("--universal") > 0) {
    for (const char* flag : {"--zero-stage", "--zero-ranks"}) {
      if (app.count(flag) > 0) {
        throw ConfigError(
            {.what = fmt::format(
                 "{} chooses nothing in a universal checkpoint",
                 flag)});
      }
    }
  }
  require_format(app, {"--optimizer"}, CheckpointFormat::native, to);
  require_format(app, {"--tokenizer"}, CheckpointFormat::huggingface, to);
}

checkpoints::ConvertOptions options_of(const ConvertFlags& flags) {
  checkpoints::ConvertOptions options = flags.options;
  options.input = flags.input;
  options.output = flags.output;
  options.to = *checkpoints::checkpoint_format_from(flags.to);
  options.from = checkpoints::checkpoint_format_from(flags.from);
  options.tokenizer = flags.tokenizer;
  if (!flags.dtype.empty()) {
    options.type = dtypes.at(flags.dtype);
  }
  if (!flags.names.empty()) {
    options.megatron_names = names_of_flag.at(flags.names);
  }
  if (flags.format == "torch_dist") {
    options.megatron_format = checkpoints::MegatronFormat::torch_dist;
  }
  if (!flags.deepspeed.empty()) {
    options.megatron_deepspeed = deepspeed_of_flag.at(flags.deepspeed);
  }
  options.megatron_deepspeed_grouped = flags.output_heads == "grouped";
  const bool keep_padding = options.megatron.keep_padding;
  options.megatron = flags.model.reading();
  options.megatron.keep_padding = keep_padding;
  if (flags.heads == "apart") {
    options.megatron.heads = checkpoints::MegatronHeads::queries_keys_values;
  } else if (flags.heads == "grouped") {
    options.megatron.heads = checkpoints::MegatronHeads::grouped;
  }
  return options;
}

} // namespace

int run_convert(const Arguments& arguments) {
  CommandLine line(
      "cairn convert [FLAGS…] --input PATH --output PATH --to FORMAT",
      "cairn convert --input checkpoints/gpt2 --output gpt2-hf --to "
      "huggingface --dtype bf16");
  ConvertFlags flags;
  CLI::App& app = line.app();
  app.description(
      "Converts checkpoints between Cairn's own format, DeepSpeed's,\n"
      "Megatron's, Hugging Face's and files of torch.save, one tensor at a "
      "time.\n"
      "Also folders of torch.distributed.checkpoint (FSDP2, torchtitan).\n"
      "What the input is, it finds out.");
  add_file_flags(app, flags);
  add_weight_flags(app, flags);
  add_megatron_flags(app, flags);
  add_flags_of_other_formats(app, flags);
  add_model_flags(app, flags);
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  checkpoints::ConvertOptions options = options_of(flags);
  require_formats(app, options.to);
  return run_conversion(std::move(options));
}

} // namespace cairn::cli
