#include "cli/generate/generate_flags.h"

#include "config/internal/actors.h"

#include <cairn/base/error.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

namespace cairn::cli {
namespace {

/// A beam search chooses no token at random and reports no single tokens.
void check_beam_flags(const config::Config& config) {
  if (config.flags.generation.beam_width == 0) {
    if (config.given.contains("--length-penalty")) {
      throw ConfigError(
          {.what = "is about beam search",
           .where = "--length-penalty",
           .remedy = "add --beam-width"});
    }
    return;
  }
  for (const char* flag :
       {"--temperature",
        "--top_k",
        "--top_p",
        "--top-p-decay",
        "--top-p-bound",
        "--greedy",
        "--repetition-penalty",
        "--return-log-probs",
        "--top-n-logprobs"}) {
    if (config.given.contains(flag)) {
      throw ConfigError(
          {.what = "does not go with beam search",
           .where = flag,
           .remedy = "leave it or --beam-width out"});
    }
  }
}

void check_output_flags(const config::GenerationFlags& flags) {
  if (flags.prompt_ids && (flags.sample_input_file || !flags.stop.empty())) {
    throw ConfigError(
        {.what = "does not go with texts as words",
         .where = "--prompt-ids",
         .values = flags.sample_input_file ? "--sample-input-file" : "--stop",
         .remedy = "leave one of them out; --stop-token-ids ends a text at an "
                   "id"});
  }
  const bool to_json = flags.prompt_ids || flags.sample_input_file ||
      (flags.genfile && flags.num_samples > 0);
  if (!to_json && (flags.return_log_probs || flags.top_n_logprobs > 0)) {
    throw ConfigError(
        {.what = "log-probabilities are written to files only",
         .where =
             flags.return_log_probs ? "--return-log-probs" : "--top-n-logprobs",
         .remedy = "add --genfile, --sample-input-file or --prompt-ids"});
  }
}

} // namespace

std::int64_t texts_at_once(const config::Config& config) {
  return config.given.contains("--micro-batch-size")
      ? config.deepspeed.batch->micro
      : 8;
}

generate::GenerateOptions generate_options(const config::Config& config) {
  const config::GenerationFlags& flags = config.flags.generation;
  // Megatron's way to ask for the likeliest token.
  const bool no_filter = config.given.contains("--top_k") &&
      config.given.contains("--top_p") && flags.top_k == 0 && flags.top_p == 0;
  generate::GenerateOptions options{
      .sampling =
          {.greedy = flags.greedy || no_filter,
           .temperature = flags.temperature,
           .top_k = flags.top_k,
           .top_p = flags.top_p,
           .repetition_penalty = flags.repetition_penalty,
           .top_p_decay = flags.top_p_decay,
           .top_p_bound = flags.top_p_bound},
      .most_tokens = flags.out_seq_length,
      .longest = config.flags.data.seq_length,
      .seed = static_cast<std::uint64_t>(config.flags.training.seed)};
  options.stops = flags.stop_token_ids;
  options.likeliest = static_cast<int>(flags.top_n_logprobs);
  options.of_prompt = flags.return_log_probs;
  return options;
}

generate::TextBatchOptions batch_options(const config::Config& config) {
  const config::GenerationFlags& flags = config.flags.generation;
  generate::TextBatchOptions options;
  options.most_texts = texts_at_once(config);
  options.recompute = flags.recompute;
  if (flags.weight_type) {
    using generate::WeightType;
    options.weights = *flags.weight_type == "int8" ? WeightType::int8
        : *flags.weight_type == "bf16"             ? WeightType::bf16
                                                   : WeightType::fp32;
  }
  return options;
}

void check_ranks(
    const config::Config& config,
    int ranks,
    const Logger& logger) {
  const config::DistributedFlags& flags = config.flags.distributed;
  const std::int64_t parts = flags.tensor_parallel * flags.pipeline_parallel;
  const char* const where =
      "--tensor-model-parallel-size, --pipeline-model-parallel-size";
  if (ranks == 1 && parts > 1) {
    logger.info(
        "one rank holds the whole model: {} count with as many ranks, under "
        "`cairn launch`",
        where);
  }
  if (ranks > 1 && parts != ranks) {
    throw ConfigError(
        {.what = "the model is not divided over the ranks that there are",
         .where = where,
         .values = fmt::format(
             "{} x {} parts, {} ranks",
             flags.tensor_parallel,
             flags.pipeline_parallel,
             ranks),
         .remedy = fmt::format(
             "add --tensor-model-parallel-size {}, or start {}",
             ranks,
             parts == 1 ? "one rank" : "as many ranks as parts")});
  }
}

void check_generate_flags(
    const config::Config& config,
    const Logger& logger,
    Checkpoint checkpoint) {
  using config::Actor;
  config::refuse_unused_flags(config, Actor::generate, Actor::pretrain);
  for (const std::string& warning : config.warnings) {
    logger.warning("{}", warning);
  }
  std::vector<std::string> about_training;
  for (const auto& [name, place] : config.given) {
    if (name.starts_with("--") && !config::acts_on(Actor::generate, name)) {
      about_training.push_back(name);
    }
  }
  if (!about_training.empty()) {
    logger.info(
        "about training, and without effect here: {}",
        fmt::join(about_training, ", "));
  }
  const bool needs_one =
      checkpoint == Checkpoint::named || !config.flags.model.num_layers;
  if (needs_one && !config.flags.checkpointing.load) {
    throw ConfigError(
        {.what = "no checkpoint is named",
         .where = "--load",
         .remedy = "see `cairn generate --help`"});
  }
  check_beam_flags(config);
  check_output_flags(config.flags.generation);
}

} // namespace cairn::cli
