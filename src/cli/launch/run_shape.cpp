#include "cli/launch/run_shape.h"

#include "cli/program/byte_size.h"
#include "config/internal/batch_steps.h"
#include "config/internal/curriculum_length.h"
#include "config/internal/describe_model.h"
#include "config/internal/elastic_batch.h"
#include "pipeline/internal/stage_cuts.h"

#include <cairn/base/error.h>
#include <cairn/model/parameters.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace cairn::cli {
namespace {

using config::Config;
using model::Layer;

/// The shapes of all stages. `layers`: the part of them that a rank has.
std::vector<StageShape> stages_of(
    const std::vector<Layer>& layers,
    const std::vector<int>& cuts,
    const Config& config) {
  std::vector<StageShape> stages(
      static_cast<std::size_t>(config.flags.distributed.pipeline_parallel));
  std::set<std::string> owned; // tied layers belong to their first stage
  std::vector<std::set<std::string>> here(stages.size());
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const std::size_t place = i % stages.size();
    StageShape& stage = stages[place];
    for (int at = cuts[i]; at < cuts[i + 1]; ++at) {
      const Layer& layer = layers[static_cast<std::size_t>(at)];
      stage.blocks += layer.type == "block" ? 1 : 0;
      const bool tied = !layer.tie.empty();
      const std::int64_t experts =
          layer.experts / config.flags.distributed.expert_parallel;
      const std::int64_t parameters =
          layer.parameters - layer.experts + experts;
      stage.experts += experts;
      if (!tied || here[place].insert(layer.tie).second) {
        stage.held += parameters;
      }
      if (!tied || owned.insert(layer.tie).second) {
        stage.owned += parameters;
      }
    }
  }
  return stages;
}

/// Bytes for each parameter, before anything is cut.
struct PerParameter {
  double parameter = 4;
  double gradient = 4;
  double optimizer = 0;
};

double bytes_of(config::DataType type) {
  return type == config::DataType::fp32 ? 4 : 2;
}

std::optional<PerParameter> per_parameter(const Config& config) {
  const config::DeepSpeedConfig& settings = config.deepspeed;
  const std::map<std::string_view, double> moments{
      {"adam", 8},
      {"adamw", 8},
      {"lamb", 8},
      {"lion", 4},
      {"adagrad", 4}};
  std::string type = settings.optimizer.type.value_or("adam");
  std::ranges::transform(type, type.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  const auto found = moments.find(type);
  if (found == moments.end()) {
    return std::nullopt; // it depends on more than the number of parameters
  }
  PerParameter bytes{.optimizer = found->second};
  if (settings.fp16.enabled || settings.bf16.enabled) {
    bytes.parameter = 2;
    bytes.gradient = settings.bf16.enabled ? 4 : 2; // bf16 adds up in fp32
    // fp32 weights, or what bf16 drops of them.
    bytes.optimizer += settings.data_types.precision_aware_optimizer ? 2 : 4;
  }
  const config::DataTypesConfig& types = settings.data_types;
  for (const config::DataType state :
       {types.exp_avg_dtype, types.exp_avg_sq_dtype}) {
    bytes.optimizer -= 4 - bytes_of(state);
  }
  if (settings.data_types.grad_accum_dtype) {
    bytes.gradient = bytes_of(*settings.data_types.grad_accum_dtype);
  }
  return bytes;
}

double& tier_of(StateBytes& bytes, zero::Tier tier) {
  switch (tier) {
    case zero::Tier::cpu:
      return bytes.cpu;
    case zero::Tier::nvme:
      return bytes.nvme;
    case zero::Tier::device:
      break;
  }
  return bytes.device;
}

std::optional<StateBytes> states_of(
    const StageShape& stage,
    const zero::Policy& policy,
    const Config& config) {
  const auto each = per_parameter(config);
  if (!each) {
    return std::nullopt;
  }
  const auto ranks = static_cast<double>(
      policy.shard_ranks > 0 ? policy.shard_ranks
                             : config.data_parallel_size *
              config.flags.distributed.context_parallel);
  // Fewer ranks hold copies of the same experts.
  const double same_experts =
      ranks / static_cast<double>(config.flags.distributed.expert_parallel);
  const auto share = [&](std::int64_t parameters, bool cut) {
    const auto all = static_cast<double>(parameters);
    const auto experts = static_cast<double>(stage.experts);
    return cut ? (all - experts) / ranks + experts / same_experts : all;
  };
  StateBytes bytes;
  tier_of(bytes, policy.parameter_tier) +=
      each->parameter * share(stage.held, policy.partition_parameters);
  if (policy.second_copy_ranks > 0) {
    bytes.device += static_cast<double>(stage.held) / policy.second_copy_ranks *
        (policy.weight_wire == zero::Wire::exact ? each->parameter : 1);
  }
  bytes.device +=
      each->gradient * share(stage.held, policy.partition_gradients);
  const double optimizer =
      each->optimizer * share(stage.owned, policy.partition_optimizer);
  tier_of(bytes, policy.optimizer_tier) += policy.offloaded * optimizer;
  bytes.device += (1 - policy.offloaded) * optimizer;
  return bytes;
}

std::string shown_count(double number) {
  for (const auto& [size, letter] :
       {std::pair{1e12, 'T'}, std::pair{1e9, 'B'}, std::pair{1e6, 'M'}}) {
    if (number >= size) {
      return fmt::format("{:.2f} {}", number / size, letter);
    }
  }
  return fmt::format("{}", number);
}

std::string shown_bytes(double bytes) {
  return shown_byte_size(static_cast<std::uint64_t>(
      std::min(bytes, 9e18))); // the largest value for the cast
}

std::string shown_layers(const RunShape& shape) {
  return shape.kind == model::ModelKind::t5
      ? fmt::format(
            "{} + {} layers",
            shape.model.layers,
            shape.model.decoder_layers)
      : fmt::format("{} layers", shape.model.layers);
}

std::string shown_stages(const std::vector<StageShape>& stages) {
  const auto [least, most] =
      std::ranges::minmax(stages, {}, &StageShape::blocks);
  return least.blocks == most.blocks
      ? fmt::format("{} of {} layers", stages.size(), most.blocks)
      : fmt::format(
            "{} of {} to {} layers",
            stages.size(),
            least.blocks,
            most.blocks);
}

std::string shown_mesh(const Config& config) {
  const config::DistributedFlags& degrees = config.flags.distributed;
  std::string text = fmt::format(
      "{} rank{} = {} data x {} tensor x {} pipeline",
      config.world_size,
      config.world_size == 1 ? "" : "s",
      config.data_parallel_size,
      degrees.tensor_parallel,
      degrees.pipeline_parallel);
  if (degrees.context_parallel > 1) {
    text += fmt::format(" x {} context", degrees.context_parallel);
  }
  if (degrees.expert_parallel > 1) {
    text += fmt::format(
        ", {} of them sharing out experts",
        degrees.expert_parallel);
  }
  return text;
}

std::string shown_rampup(const Config& config) {
  const auto& rampup = config.flags.training.rampup_batch_size;
  const std::int64_t steps =
      (config.deepspeed.batch->train - rampup[0]) / rampup[1];
  return fmt::format(
      "from {} by {} in {} steps over {} samples",
      rampup[0],
      rampup[1],
      steps,
      rampup[2]);
}

std::string shown_steps(const std::vector<config::BatchStep>& steps) {
  std::string text;
  for (const config::BatchStep& step : steps) {
    text += text.empty()
        ? fmt::format("{}", step.batch)
        : fmt::format(", {} after {} samples", step.batch, step.samples);
  }
  return text;
}

std::string shown_length(const RunShape& shape, const Config& config) {
  const config::TrainingFlags& flags = config.flags.training;
  const auto length = static_cast<double>(shape.sequence);
  if (flags.train_tokens) {
    return shown_count(static_cast<double>(*flags.train_tokens)) + " tokens";
  }
  double samples = 0;
  std::string text;
  if (flags.train_samples) {
    samples = static_cast<double>(*flags.train_samples);
    text = fmt::format("{} samples", *flags.train_samples);
  } else if (flags.train_iters && config.deepspeed.batch) {
    samples = static_cast<double>(*flags.train_iters) *
        static_cast<double>(config.deepspeed.batch->train);
    text = fmt::format("{} iterations", *flags.train_iters);
  } else {
    return "not said";
  }
  return fmt::format(
      "{}, {}{} tokens",
      text,
      config.deepspeed.curriculum.enabled || config.flags.data.random_ltd
          ? "less than "
          : "",
      shown_count(samples * length));
}

/// Tokens of the whole run; 0 if its length is not said.
double tokens_of(const RunShape& shape, const Config& config) {
  const config::TrainingFlags& flags = config.flags.training;
  if (flags.train_tokens) {
    return static_cast<double>(*flags.train_tokens);
  }
  double samples = static_cast<double>(flags.train_samples.value_or(0));
  if (flags.train_iters && config.deepspeed.batch) {
    samples = static_cast<double>(*flags.train_iters) *
        static_cast<double>(config.deepspeed.batch->train);
  }
  return samples * static_cast<double>(shape.sequence);
}

/// The run's tokens beside those that its parameters deserve: 20 for each
/// (Hoffmann and others, 2022, "Chinchilla"), 1 % of them for the warm-up.
std::string shown_budget(const RunShape& shape, double tokens) {
  const auto parameters = static_cast<double>(shape.parameters.all);
  const double wanted = 20 * parameters;
  return fmt::format(
      "{:.2f} tokens for each parameter; 20 (Chinchilla) are {}, 1 % of them "
      "{}",
      tokens / parameters,
      shown_count(wanted),
      shown_count(wanted / 100));
}

std::string shown_states(const RunShape& shape) {
  if (!shape.states) {
    return "not counted for this optimizer";
  }
  std::string text = shown_bytes(shape.states->device);
  for (const auto& [bytes, where] :
       {std::pair{shape.states->cpu, "in host memory"},
        std::pair{shape.states->nvme, "on NVMe"}}) {
    if (bytes > 0) {
      text += fmt::format(", {} {}", shown_bytes(bytes), where);
    }
  }
  return text;
}

} // namespace

std::string shown_elasticity(const Config& config) {
  return config::describe(config::resolve_elastic_batch(
      config.deepspeed.elasticity,
      config.data_parallel_size));
}

RunShape shape_of(model::ModelKind kind, const Config& config) {
  if (!config.deepspeed.batch) {
    throw ConfigError(
        {.what = "the batch size is missing",
         .where = "--micro-batch-size",
         .remedy = "give --micro-batch-size and --global-batch-size"});
  }
  RunShape shape{
      .kind = kind,
      .model = config::describe_model(
          kind,
          config.flags,
          config::expected_vocabulary(kind, config.flags.tokenizer)),
      .sequence = config::sequence_length(config.flags.data),
      .policy = zero::policy_of(config.deepspeed.zero)};
  const model::ModelDescription padded = model::with_padding(shape.model);
  shape.parameters = model::count_parameters(padded);
  shape.stages = stages_of(
      model::layers_of(padded, config.flags.distributed.tensor_parallel),
      pipeline::stage_cuts(shape.model, config),
      config);
  shape.largest = static_cast<std::size_t>(
      std::ranges::max_element(shape.stages, {}, &StageShape::held) -
      shape.stages.begin());
  shape.states = states_of(shape.stages[shape.largest], shape.policy, config);
  return shape;
}

std::string describe(const RunShape& shape, const Config& config) {
  const model::ModelDescription& model = shape.model;
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<12} {}\n", name, value);
  };
  line(
      "model",
      fmt::format(
          "{}, hidden {}, {} heads, sequence {}",
          shown_layers(shape),
          model.hidden,
          model.heads,
          shape.sequence));
  line(
      "vocabulary",
      fmt::format(
          "{}, padded to {}",
          model.vocabulary,
          model.padded_vocabulary));
  const auto counted = [](std::int64_t parameters) {
    return fmt::format(
        "{} ({})",
        parameters,
        shown_count(static_cast<double>(parameters)));
  };
  line(
      "parameters",
      counted(shape.parameters.all) +
          (shape.parameters.active < shape.parameters.all
               ? ", a token passes through " + counted(shape.parameters.active)
               : ""));
  line("mesh", shown_mesh(config));
  line("stages", shown_stages(shape.stages));
  const std::string batch = config::describe(*config.deepspeed.batch);
  line("batch", batch.substr(batch.find_first_of("0123456789")));
  if (!config.flags.training.rampup_batch_size.empty()) {
    line("ramp-up", shown_rampup(config));
  }
  if (const auto steps = config::batch_steps(config.flags); !steps.empty()) {
    line("batches", shown_steps(steps));
  }
  if (config.deepspeed.elasticity.enabled) {
    line("elastic", shown_elasticity(config));
  }
  line("length", shown_length(shape, config));
  if (const double tokens = tokens_of(shape, config); tokens > 0) {
    line("budget", shown_budget(shape, tokens));
  }
  if (config.deepspeed.curriculum.enabled) {
    line("curriculum", config::describe(config.deepspeed.curriculum));
  }
  if (config.flags.data.random_ltd) {
    line("random-LTD", config::describe(config.deepspeed.random_ltd));
  }
  line("partition", zero::describe(shape.policy));
  const StageShape& largest = shape.stages[shape.largest];
  line(
      "of a rank",
      fmt::format(
          "{} parameters at most (stage {}); model states {}",
          shown_count(static_cast<double>(largest.held)),
          shape.largest,
          shown_states(shape)));
  return text;
}

} // namespace cairn::cli
