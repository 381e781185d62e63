#include "config/checks/check.h"
#include "config/table/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace cairn::config {
namespace {

void exclude(const Config& config, const char* one, const char* other) {
  if (config.given.contains(one) && config.given.contains(other)) {
    refuse(
        config,
        one,
        fmt::format("{} and {} exclude each other", one, other),
        "give one of them");
  }
}

void need(const Config& config, const char* flag, const char* other) {
  if (config.given.contains(flag) && !config.given.contains(other)) {
    refuse(
        config,
        flag,
        fmt::format("{} needs {}", flag, other),
        fmt::format("add {}", other));
  }
}

// The length of training, its schedule and its warm-up count in one unit.
void check_length(const Config& config) {
  exclude(config, "--train-iters", "--train-samples");
  exclude(config, "--lr-warmup-fraction", "--lr-warmup-iters");
  exclude(config, "--lr-warmup-fraction", "--lr-warmup-samples");
  exclude(config, "--lr-warmup-fraction", "--lr-warmup-tokens");
  for (const char* samples :
       {"--lr-decay-samples", "--lr-warmup-samples", "--rampup-batch-size"}) {
    exclude(config, "--train-iters", samples);
  }
  for (const char* iters : {"--lr-decay-iters", "--lr-warmup-iters"}) {
    exclude(config, "--train-samples", iters);
  }
  exclude(config, "--lr-decay-iters", "--lr-decay-samples");
  exclude(config, "--lr-decay-iters", "--lr-decay-tokens");
  exclude(config, "--lr-decay-samples", "--lr-decay-tokens");
  exclude(config, "--lr-warmup-iters", "--lr-warmup-samples");
  exclude(config, "--lr-warmup-iters", "--lr-warmup-tokens");
  exclude(config, "--lr-warmup-samples", "--lr-warmup-tokens");
  exclude(
      config,
      "--override-opt_param-scheduler",
      "--use-checkpoint-opt_param-scheduler");
  const LearningRateFlags& rate = config.flags.learning_rate;
  if (rate.lr && rate.min_lr > *rate.lr) {
    refuse(
        config,
        "--min-lr",
        fmt::format(
            "{} is above --lr {}",
            number_text(rate.min_lr),
            number_text(*rate.lr)));
  }
}

void check_decoupled_rate(const Config& config) {
  need(config, "--decoupled-min-lr", "--decoupled-lr");
  const LearningRateFlags& rate = config.flags.learning_rate;
  if (!rate.decoupled_lr) {
    return;
  }
  if (rate.decoupled_min_lr.value_or(rate.min_lr) > *rate.decoupled_lr) {
    refuse(
        config,
        "--decoupled-lr",
        "is below the lowest rate",
        "raise it, or lower --decoupled-min-lr");
  }
  if (config.deepspeed.scheduler.type) {
    refuse(
        config,
        "--decoupled-lr",
        "is for the schedule of the flags",
        "leave \"scheduler\" out of the JSON file");
  }
}

void check_cuda_graphs(const Config& config) {
  const TrainingFlags& flags = config.flags.training;
  if (flags.cuda_graphs == CudaGraphs::none && !flags.enable_cuda_graph) {
    need(config, "--cuda-graph-warmup-steps", "--cuda-graph-impl");
  }
}

void check_fp8(const Config& config) {
  const PrecisionFlags& flags = config.flags.precision;
  for (const char* flag : {"--fp8-recipe", "--first-last-layers-bf16"}) {
    need(config, flag, "--fp8-format");
  }
  for (const char* flag :
       {"--num-layers-at-start-in-bf16", "--num-layers-at-end-in-bf16"}) {
    need(config, flag, "--first-last-layers-bf16");
  }
  if (flags.fp8_recipe == Fp8Recipe::blockwise ||
      flags.fp8_recipe == Fp8Recipe::mxfp8) {
    refuse(
        config,
        "--fp8-recipe",
        "a matrix has one scale, and no blocks have scales of their own",
        "use --fp8-recipe tensorwise or delayed");
  }
  for (const char* flag :
       {"--fp8-amax-history-len", "--fp8-amax-compute-algo", "--fp8-margin"}) {
    if (config.given.contains(flag) && flags.fp8_recipe != Fp8Recipe::delayed) {
      refuse(
          config,
          flag,
          "only the recipe delayed goes by earlier updates",
          "add --fp8-recipe delayed");
    }
  }
  if (flags.fp8_format && !config.deepspeed.bf16.enabled &&
      !config.deepspeed.fp16.enabled) {
    refuse(
        config,
        "--fp8-format",
        "fp8 products give results of 16 bits",
        "add --bf16");
  }
}

void check_regularization(const Config& config) {
  const RegularizationFlags& flags = config.flags.regularization;
  if (flags.weight_decay_incr_style == WeightDecayStyle::constant) {
    for (const char* flag : {"--start-weight-decay", "--end-weight-decay"}) {
      need(config, flag, "--weight-decay-incr-style");
    }
    return;
  }
  need(config, "--weight-decay-incr-style", "--start-weight-decay");
  need(config, "--weight-decay-incr-style", "--end-weight-decay");
  if (*flags.start_weight_decay > *flags.end_weight_decay) {
    refuse(
        config,
        "--start-weight-decay",
        "weight decay grows: start above --end-weight-decay");
  }
}

void check_recompute(const Config& config) {
  exclude(config, "--checkpoint-activations", "--recompute-granularity");
  exclude(config, "--checkpoint-activations", "--recompute-activations");
  exclude(config, "--recompute-activations", "--recompute-granularity");
  need(
      config,
      "--deepspeed-activation-checkpointing",
      "--checkpoint-activations");
  if (config.flags.training.recompute_granularity !=
          RecomputeGranularity::full &&
      config.given.contains("--recompute-method")) {
    refuse(
        config,
        "--recompute-method",
        "is about whole layers",
        "add --recompute-granularity full");
  }
  const TrainingFlags& flags = config.flags.training;
  if (!flags.recompute_modules.empty() && !flags.recomputes_parts()) {
    refuse(
        config,
        "--recompute-modules",
        "is about parts of layers",
        "add --recompute-granularity selective");
  }
  constexpr std::array<std::string_view, 5> parts{
      "core_attn",
      "layernorm",
      "mlp",
      "moe",
      "moe_act"};
  for (const std::string& part : flags.recompute_modules) {
    if (std::ranges::find(parts, part) == parts.end()) {
      refuse(
          config,
          "--recompute-modules",
          fmt::format("no part of a layer that is recomputed alone: {}", part),
          "use core_attn, layernorm, mlp, moe or moe_act");
    }
  }
  if (flags.recompute_num_layers && !flags.recomputes_layers()) {
    refuse(
        config,
        "--recompute-num-layers",
        "no layers are recomputed",
        "give --checkpoint-activations or --recompute-granularity full as "
        "well");
  }
}

void check_model_choices(const Config& config) {
  exclude(config, "--swiglu", "--openai-gelu");
  need(config, "--group-query-attention", "--num-key-value-heads");
  if (config.flags.model.use_rotary_position_embeddings &&
      config.given.contains("--position-embedding-type") &&
      config.flags.model.position_embedding != PositionEmbedding::rope) {
    exclude(
        config,
        "--use-rotary-position-embeddings",
        "--position-embedding-type");
  }
  if (config.flags.distributed.ddp_impl == DdpImpl::local) {
    exclude(config, "--DDP-impl", "--overlap-grad-reduce");
  }
  if (config.flags.distributed.tp_comm_overlap) {
    need(config, "--tp-comm-overlap", "--sequence-parallel");
    if (config.flags.precision.fp8_format) {
      refuse(
          config,
          "--tp-comm-overlap",
          "products in fp8 take their unit from all tokens, so that none can "
          "start before the last token is there",
          "leave out --fp8-format, or --tp-comm-overlap");
    }
  }
}

void check_generation(const Config& config) {
  const GenerationFlags& flags = config.flags.generation;
  if (flags.top_k > 0 && flags.top_p > 0) {
    exclude(config, "--top_k", "--top_p");
  }
  if (flags.greedy && flags.top_k > 0) {
    exclude(config, "--greedy", "--top_k");
  }
  if (flags.greedy && flags.top_p > 0) {
    exclude(config, "--greedy", "--top_p");
  }
  if (flags.num_samples > 0) {
    exclude(config, "--num-samples", "--sample-input-file");
  }
  if (flags.genfile && flags.num_samples == 0 && !flags.prompt_ids) {
    refuse(
        config,
        "--genfile",
        "is for texts without a prompt, and none is asked for",
        "say how many with --num-samples");
  }
  need(config, "--sample-output-file", "--sample-input-file");
}

void check_distributed(const Config& config) {
  const DistributedFlags& flags = config.flags.distributed;
  if (flags.nccl_ub && flags.backend && *flags.backend != Backend::nccl) {
    refuse(
        config,
        "--use-nccl-ub",
        "buffers are registered with NCCL, and --distributed-backend is "
        "another library",
        "leave one of the two flags out");
  }
}

void check_split(const Config& config) {
  double sum = 0;
  int parts = 0;
  bool good = true;
  std::string_view rest = config.flags.data.split;
  while (good) {
    const std::size_t comma = rest.find(',');
    const auto share = parse_real(rest.substr(0, comma));
    good = share.has_value() && *share >= 0;
    sum += share.value_or(0);
    ++parts;
    if (comma == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(comma + 1);
  }
  if (!good || parts > 3 || sum <= 0) {
    refuse(
        config,
        "--split",
        fmt::format("\"{}\" are no shares", config.flags.data.split),
        "write up to three numbers, such as 969,30,1");
  }
}

// A blend is prefixes alone, or a weight before each prefix.
void check_blend(
    const Config& config,
    const char* flag,
    const std::vector<std::string>& words) {
  const auto weight = [](const std::string& word) {
    return parse_real(word).has_value();
  };
  if (std::none_of(words.begin(), words.end(), weight)) {
    return;
  }
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (!weight(words[i])) {
      refuse(
          config,
          flag,
          fmt::format("\"{}\" has no weight, but others have", words[i]),
          "give every path a weight, or none");
    }
    if (i + 1 == words.size() || weight(words[i + 1])) {
      refuse(
          config,
          flag,
          fmt::format("the weight {} has no path after it", words[i]),
          "write weights and paths in turn, such as 0.3 a 0.7 b");
    }
  }
}

void check_blends(const Config& config) {
  const DataFlags& data = config.flags.data;
  check_blend(config, "--data-path", data.data_path);
  check_blend(config, "--train-data-path", data.train_data_path);
  check_blend(config, "--valid-data-path", data.valid_data_path);
  check_blend(config, "--test-data-path", data.test_data_path);
}

void check_logging(const Config& config) {
  need(config, "--save-interval", "--save");
  need(config, "--timing-log-option", "--timing-log-level");
  for (const char* flag :
       {"--log-timers-to-tensorboard",
        "--log-batch-size-to-tensorboard",
        "--no-log-learning-rate-to-tensorboard",
        "--no-log-loss-scale-to-tensorboard",
        "--log-validation-ppl-to-tensorboard",
        "--log-optimizer-states-to-tensorboard",
        "--log-world-size-to-tensorboard"}) {
    need(config, flag, "--tensorboard-dir");
  }
  for (const std::string& steps : config.flags.logging.profile_steps) {
    const std::size_t cut = steps.find_first_of("-,");
    const auto first = parse_integer(steps.substr(0, cut));
    const auto last =
        cut == std::string::npos ? first : parse_integer(steps.substr(cut + 1));
    if (!first || !last || *first < 0 || *last < *first) {
      refuse(
          config,
          "--profile-steps",
          fmt::format("\"{}\" are no steps", steps),
          "write 2-4, or 2,4");
    }
  }
  const LoggingFlags& flags = config.flags.logging;
  if (flags.profile_step_end < flags.profile_step_start) {
    refuse(
        config,
        "--profile-step-end",
        fmt::format(
            "{} comes before --profile-step-start {}",
            flags.profile_step_end,
            flags.profile_step_start));
  }
}

} // namespace

void check_flags(const Config& config) {
  check_length(config);
  check_fp8(config);
  check_cuda_graphs(config);
  check_regularization(config);
  check_decoupled_rate(config);
  check_recompute(config);
  check_model_choices(config);
  check_generation(config);
  check_distributed(config);
  check_split(config);
  check_blends(config);
  check_logging(config);
}

} // namespace cairn::config
