#include "pretrain/probe/probe_config.h"

#include "config/internal/actors.h"
#include "config/internal/hjson.h"
#include "pretrain/internal/stages.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::pretrain {

namespace {

void refuse_flags(const config::Config& config, bool train) {
  if (!train) {
    for (const auto& [flag, place] : config.given) {
      if (config::acts_on(config::Actor::probe_train, flag) &&
          !config::acts_on(config::Actor::probe, flag) &&
          flag.starts_with("--")) {
        throw ConfigError(
            {.what = "nothing is trained",
             .where = flag,
             .remedy = "add --train, or leave it out"});
      }
    }
  }
  config::refuse_unused_flags(
      config,
      train ? config::Actor::probe_train : config::Actor::probe);
}

/// True when a file or the flags say how large a batch is.
bool says_batch(const config::ConfigSource& source) {
  for (std::string word : source.flags) {
    std::ranges::replace(word, '_', '-');
    for (const std::string_view flag :
         {"--micro-batch-size", "--global-batch-size"}) {
      if (word == flag || word.starts_with(std::string(flag) + "=")) {
        return true;
      }
    }
  }
  if (!source.file) {
    return false;
  }
  const config::Node root = config::read_hjson_file(*source.file);
  return root.find("train_batch_size") != nullptr ||
      root.find("train_micro_batch_size_per_gpu") != nullptr;
}

void require_division(
    std::int64_t number,
    std::string_view what,
    std::int64_t ranks,
    std::string_view flag) {
  if (number % ranks != 0) {
    throw ConfigError(
        {.what = fmt::format("{} do not divide over the ranks", what),
         .where = std::string(flag),
         .values = fmt::format("{} over {}", number, ranks)});
  }
}

void check_layout(
    const config::Config& config,
    const model::ModelDescription& model,
    const ProbeInput& input) {
  const config::DistributedFlags& flags = config.flags.distributed;
  const char* tensor = "--tensor-model-parallel-size";
  require_division(
      model.heads,
      "the model's heads",
      flags.tensor_parallel,
      tensor);
  if (flags.tensor_parallel % model.key_value_heads != 0) {
    require_division(
        model.key_value_heads,
        "the model's key and value heads",
        flags.tensor_parallel,
        tensor);
  }
  require_division(
      model.ffn,
      "the width of the model's MLP",
      flags.tensor_parallel,
      tensor);
  if (flags.sequence_parallel) {
    for (const std::int64_t length : {input.length(), input.label_length()}) {
      require_division(
          length,
          "the tokens of a row",
          flags.tensor_parallel,
          "--sequence-parallel");
    }
  }
  check_stages(model, config, input.layer_inputs());
}

/// Makes a pass of all rows at once, or of `micro` rows.
void divide_rows(
    config::Config& config,
    const ProbeInput& input,
    std::optional<std::int64_t> micro) {
  require_division(
      input.rows(),
      "the rows of the batch",
      config.data_parallel_size,
      "the input");
  const std::int64_t rows = input.rows() / config.data_parallel_size;
  if (micro && rows % *micro != 0) {
    throw ConfigError(
        {.what = "a rank's rows do not divide into micro batches",
         .where = "--micro-batch-size",
         .values = fmt::format("{} rows, {} at once", rows, *micro)});
  }
  config.deepspeed.batch = {
      .train = input.rows(),
      .micro = micro.value_or(rows),
      .accumulation = rows / micro.value_or(rows),
      .data_parallel = config.data_parallel_size};
}

/// Sets an optimizer that keeps no states and changes nothing.
void leave_weights_alone(config::Config& config) {
  config.deepspeed.optimizer = {};
  config.deepspeed.optimizer.type = "sgd";
  config.deepspeed.optimizer.params.emplace().lr = 0;
  config.deepspeed.scheduler = {};
}

void plan_training(config::Config& config, const ProbeInput& input) {
  if (!config.deepspeed.optimizer.type) {
    throw ConfigError(
        {.what = "training needs an optimizer",
         .where = "--train",
         .remedy = "name one in --config FILE, or give Megatron's flags: --lr, "
                   "--optimizer, …"});
  }
  if (config.deepspeed.batch->train != input.rows()) {
    throw ConfigError(
        {.what = "the batch of the configuration is not what the input has",
         .where = "train_batch_size",
         .values = fmt::format(
             "{}, and {} rows in a step",
             config::describe(*config.deepspeed.batch),
             input.rows())});
  }
  config.flags.training.train_iters = input.steps();
}

} // namespace

config::Config probe_config(
    config::ConfigSource source,
    const model::ModelDescription& model,
    const ProbeInput& input,
    bool train) {
  const bool own_batch = says_batch(source);
  if (!own_batch) { // divide_rows() says how large, below
    source.flags.insert(source.flags.end(), {"--micro-batch-size", "1"});
  }
  config::Config config = config::Config::load(source);
  refuse_flags(config, train);
  check_layout(config, model, input);
  if (!train || !own_batch) {
    const bool micro = own_batch && config.given.contains("--micro-batch-size");
    divide_rows(
        config,
        input,
        micro ? std::optional(config.deepspeed.batch->micro) : std::nullopt);
  }
  if (train) {
    plan_training(config, input);
  } else {
    leave_weights_alone(config);
  }
  return config;
}

} // namespace cairn::pretrain
