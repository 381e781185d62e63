#include "cli/generate/generation_plan.h"

#include "cli/generate/generate_flags.h"
#include "cli/program/byte_size.h"
#include "cli/program/text_table.h"
#include "config/internal/describe_model.h"
#include "generate/internal/model_part.h"
#include "pretrain/internal/megatron_reading.h"

#include <cairn/generate/generate.h>
#include <cairn/model/parameters.h>
#include <cairn/models/load_model.h>

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace cairn::cli {
namespace {

using generate::ModelPart;
using generate::WeightType;
using model::ModelDescription;

ModelDescription described(const config::Config& config) {
  const config::Flags& flags = config.flags;
  if (flags.model.num_layers) {
    return config::describe_model(
        model::ModelKind::gpt,
        flags,
        config::expected_vocabulary(model::ModelKind::gpt, flags.tokenizer));
  }
  return models::open_model(
             *flags.checkpointing.load,
             flags.checkpointing.ckpt_step,
             pretrain::megatron_reading(flags.model))
      .description;
}

/// The numbers of linear layers' weights on a CPU, which has no fp16.
WeightType numbers_of(const config::Config& config) {
  return batch_options(config).weights.value_or(
      config.deepspeed.bf16.enabled ? WeightType::bf16 : WeightType::fp32);
}

std::string_view name_of(WeightType type) {
  switch (type) {
    case WeightType::fp32:
      return "fp32";
    case WeightType::bf16:
      return "bf16";
    case WeightType::int8:
      break;
  }
  return "int8";
}

std::uint64_t weight_bytes(
    const ModelPart::Parameters& held,
    const config::Config& config) {
  const WeightType numbers = numbers_of(config);
  const bool narrow =
      config.deepspeed.bf16.enabled || config.deepspeed.fp16.enabled;
  const std::int64_t linear = numbers == WeightType::fp32 ? 4
      : numbers == WeightType::bf16                       ? 2
                                                          : 1;
  const std::int64_t words = narrow ? 2 : 4;
  // A tied head has memory of its own where its numbers are others.
  const std::int64_t head =
      held.tied_head && linear != words ? held.embeddings * linear : 0;
  return static_cast<std::uint64_t>(
      held.linear * linear + held.embeddings * words + held.vectors * 4 + head);
}

std::string stretch_text(const generate::Stretch& stretch) {
  return stretch.count == 1
      ? fmt::format("{}", stretch.begin)
      : fmt::format("{}-{}", stretch.begin, stretch.end() - 1);
}

} // namespace

std::optional<PlanRequest> take_plan_request(Arguments& flags) {
  constexpr std::string_view name = "--dry-run";
  std::optional<PlanRequest> request;
  std::erase_if(flags, [&](const std::string& word) {
    const std::size_t equals = word.find('=');
    std::string spelled = word.substr(0, equals);
    std::ranges::replace(spelled, '_', '-');
    if (spelled != name) {
      return false;
    }
    request.emplace();
    if (equals != std::string::npos) {
      request->memory =
          byte_size_from(std::string(name), word.substr(equals + 1));
    }
    return true;
  });
  return request;
}

void print_generation_plan(
    const config::Config& config,
    const PlanRequest& request,
    const distributed::Environment& here) {
  const ModelDescription model = described(config);
  generate::require_left_to_right(model);
  const std::int64_t tensor = config.flags.distributed.tensor_parallel;
  const std::int64_t stages = config.flags.distributed.pipeline_parallel;
  using enum TextTable::Align;
  TextTable table(
      {{"stage", right},
       {"ranks", right},
       {"layers", right},
       {"heads", right},
       {"key/value heads", right},
       {"weights", right},
       {"cache per token", right},
       {"longest cache", right}});
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    // The first of the ranks that share a stage has most of the vocabulary.
    const auto part = ModelPart::of(
        model,
        {.tensor_ranks = tensor, .stage = stage, .stages = stages});
    const std::uint64_t weights = weight_bytes(part.parameters(model), config);
    const auto token =
        static_cast<std::uint64_t>(part.cache_numbers(model)) * sizeof(float);
    std::string longest = "-";
    if (request.memory) {
      longest = *request.memory <= weights
          ? "too large"
          : fmt::format("{} tokens", (*request.memory - weights) / token);
    }
    table.add(
        {fmt::format("{}", stage),
         stretch_text({stage * tensor, tensor}),
         stretch_text(part.layers),
         fmt::format("{}", part.queries.count),
         fmt::format("{}", part.groups.count),
         shown_byte_size(weights),
         shown_byte_size(token),
         longest});
  }
  if (here.rank > 0) {
    return;
  }
  fmt::print(
      "model:   {}, {} parameters, vocabulary {}, {} positions\n"
      "ranks:   {} = {} pipeline x {} tensor\n"
      "numbers: weights {}, keys and values fp32\n"
      "memory:  {}\n\n{}",
      model::name_of(model.family),
      model::count_parameters(model).all,
      model.vocabulary,
      model.positions,
      tensor * stages,
      stages,
      tensor,
      name_of(numbers_of(config)),
      request.memory
          ? fmt::format("{} for each rank", shown_byte_size(*request.memory))
          : "not said; --dry-run=80GB tells the longest cache in so much",
      table.text(0));
}

Logger command_logger(const distributed::Environment& here) {
  return Logger(
      {.rank = here.rank,
       .world_size = here.world_size,
       .least = here.rank == 0 ? LogLevel::info : LogLevel::warning});
}

} // namespace cairn::cli
