#pragma once

#include "pretrain/internal/build_model.h"
#include "pretrain/internal/stages.h"
#include "pretrain/parity_row.h"
#include "pretrain/run/batch_feed.h"

#include <ATen/Functions.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/initialize.h>
#include <cairn/model/presets.h>
#include <cairn/models/pretraining.h>
#include <cairn/models/transformer.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

// A small model of any kind, trained on made-up batches, with any layout over
// ranks.

namespace cairn::pretrain::parity {

using nlohmann::json;

constexpr int steps = 6;
constexpr int micro_batches = 4; ///< of a step, over all ranks
constexpr std::int64_t sequence = 16;
constexpr std::int64_t unused_positions = 4; ///< so gradients have zeros
constexpr std::int64_t hidden = 32;
constexpr std::int64_t vocabulary = 50;

/// True for the model whose samples are cut to 8 tokens, then 12, then 16.
inline bool has_curriculum(const std::string& model) {
  return model == "gpt_in_lengths";
}

/// True for the model with two layers that compute 4 tokens, then 8, 12, and
/// all.
inline bool drops_tokens(const std::string& model) {
  return model == "gpt_dropping";
}

/// True for the model whose samples have several documents, each ending with
/// `end_of_document`, which are kept apart.
inline bool has_documents(const std::string& model) {
  return model.find("_documents") != std::string::npos;
}
constexpr std::int64_t end_of_document = 3;

/// True for models with dropout of hidden states and attention weights.
inline bool has_dropout(const std::string& model) {
  return model.find("_dropout") != std::string::npos;
}

struct Point {
  std::vector<double> losses;
  double norm = 0;
  // Further values that logs can have.
  double zeros = 0;
  double weights = 0;
  ElementSums variance{};
};
using Curve = std::vector<Point>;

inline bool has_experts(const std::string& model) {
  return model.find("_experts") != std::string::npos;
}

/// Routing draws nothing, since ranks would draw differently.
inline model::ExpertsDescription experts_of(const std::string& model) {
  model::ExpertsDescription experts{
      .counts = {4},
      .min_capacity = 2,
      .random_selection = false,
      .sample_second = false};
  if (model.ends_with("_top2")) { // all the other choices
    experts.counts = {4, 8};
    experts.top_k = 2;
    experts.residual = true;
    experts.drop_tokens = false;
  }
  return experts;
}

inline model::ModelDescription describe(const std::string& model) {
  if (has_dropout(model)) {
    auto d = describe(model.substr(0, model.find("_dropout")));
    d.dropout = 0.1;
    d.attention_dropout = model.ends_with("_of_hidden") ? 0 : 0.1;
    return d;
  }
  const model::ModelSizes sizes{
      .layers = model == "gpt" || model.starts_with("gpt_experts") ||
              model == "gpt_few_keys" || drops_tokens(model)
          ? 4
          : model == "gpt_of_5" ? 5
          : model == "gpt_of_8" ? 8
                                : 2,
      .hidden = hidden,
      .heads = 4,
      .sequence = sequence + unused_positions,
      .vocabulary = vocabulary,
      .padded_vocabulary = 64};
  if (model.starts_with("gpt_rotary") ||
      drops_tokens(model)) { // with fewer heads of keys, as Llamas have
    auto d = model::gpt_description(sizes);
    d.position = model::PositionKind::rotary;
    d.key_value_heads = 2;
    return d;
  }
  if (model == "gpt_qwen" || model == "gpt_neox") {
    auto d = describe("gpt_rotary");
    if (model == "gpt_neox") {
      d.parallel_residual = true;
      d.rotary_size = d.head_size / 2;
      return d;
    }
    d.norm = model::NormKind::rms_norm;
    d.query_key_norm = true;
    d.query_key_value_bias = true;
    d.attention_bias = d.mlp_bias = false;
    return d;
  }
  if (has_experts(model) && !model.starts_with("gpt")) {
    auto d = describe(model.substr(0, model.find("_experts")));
    d.experts = experts_of(model);
    d.layers = 4;
    d.decoder_layers = d.decoder_layers > 0 ? 4 : 0;
    return d;
  }
  if (model.starts_with("gpt")) {
    auto d = model::gpt_description(sizes);
    if (has_experts(model)) {
      d.experts = experts_of(model);
    }
    if (model == "gpt_few_keys") { // fewer than the ranks of a tensor group
      d.key_value_heads = 2;
    }
    return d;
  }
  if (model == "bert") {
    return model::bert_description(sizes);
  }
  if (model == "bert_of_words") { // as Hugging Face's, without a binary head
    auto d = model::bert_description(sizes, model::BinaryHead::without);
    d.norm_place = model::NormPlace::after;
    return d;
  }
  auto d = model::t5_description(sizes);
  if (model == "t5_relative") { // as Google's
    d.position = model::PositionKind::relative;
    d.relative_buckets = 8;
    d.relative_distance = 12;
    d.norm = model::NormKind::rms_norm;
    d.attention_bias = d.mlp_bias = d.head_bias = false;
    d.scaled_output = true;
  }
  return d;
}

inline at::Tensor tokens_of(int step, int number) {
  return at::remainder(
      at::arange(2 * (sequence + 1), at::kLong).view({2, -1}) * (7 + step) +
          number * 11 + step * 3,
      vocabulary);
}

/// The mask of two texts: all of the first, the second without its end.
inline at::Tensor padding_mask(std::int64_t length) {
  at::Tensor mask = at::ones({2, length}, at::kLong);
  mask[1].narrow(0, length - 3, 3).zero_();
  return mask;
}

/// A made-up batch in the form that the datasets give.
inline data::TensorBatch batch_of(
    const std::string& model,
    int step,
    int number) {
  const at::Tensor text = tokens_of(step, number);
  const at::Tensor tokens = text.narrow(1, 0, sequence).contiguous();
  const at::Tensor next = text.narrow(1, 1, sequence).contiguous();
  data::TensorBatch batch;
  if (model.starts_with("gpt")) {
    batch.tensors = {
        {"tokens", tokens},
        {"labels", next},
        {"loss_mask", at::ones({2, sequence})},
        {"position_ids",
         at::arange(sequence, at::kLong).expand({2, sequence})}};
  } else if (model.starts_with("bert")) {
    const at::Tensor asked = tokens.remainder(3).eq(0);
    batch.tensors = {
        {"text", tokens},
        {"types",
         at::arange(sequence, at::kLong)
             .ge(5)
             .to(at::kLong)
             .expand({2, sequence})},
        {"padding_mask", padding_mask(sequence)},
        {"labels", next.masked_fill(asked.logical_not(), -1)},
        {"loss_mask", asked.to(at::kLong)},
        {"is_random", at::tensor({number % 2, step % 2}, at::kLong)}};
  } else {
    const std::int64_t half = sequence / 2;
    batch.tensors = {
        {"text_enc", tokens},
        {"enc_mask", padding_mask(sequence)},
        {"text_dec", next.narrow(1, 0, half).contiguous()},
        {"dec_mask", padding_mask(half)},
        {"labels", next.narrow(1, 1, half).contiguous()},
        {"loss_mask", padding_mask(half)}};
  }
  return batch;
}

/// The configuration of a row, as `cairn pretrain` would read it.
inline config::Config config_of(const Row& row) {
  json settings{
      {"train_micro_batch_size_per_gpu", 2},
      {"gradient_accumulation_steps", micro_batches / row.data},
      {"gradient_clipping", 0.5},
      {"optimizer",
       {{"type", "AdamW"}, {"params", {{"lr", 1e-2}, {"weight_decay", 0.1}}}}},
      {"zero_optimization",
       {{"stage", row.stage},
        {"reduce_bucket_size", 8000},
        {"stage3_param_persistence_threshold", 40}}}};
  settings["zero_optimization"].update(row.zero);
  if (has_curriculum(row.model)) {
    settings["curriculum_learning"] = {
        {"enabled", true},
        {"min_difficulty", sequence / 2},
        {"max_difficulty", sequence},
        {"schedule_type", "fixed_linear"},
        {"schedule_config",
         {{"total_curriculum_step", steps - 1}, {"difficulty_step", 4}}}};
  }
  if (drops_tokens(row.model)) {
    settings["data_efficiency"] = {
        {"enabled", true},
        {"data_routing",
         {{"enabled", true},
          {"random_ltd",
           {{"enabled", true},
            {"total_layer_num", 4},
            {"random_ltd_layer_id", {1, 2}},
            {"random_ltd_schedule",
             {{"min_value", sequence / 4},
              {"max_value", sequence},
              {"schedule_config",
               {{"require_steps", steps - 1}, {"seq_per_step", 4}}}}}}}}}};
  }
  if (!row.partition.empty()) {
    settings["pipeline"] = {{"partition", row.partition}};
  }
  std::vector<std::string> flags{
      "--tensor-model-parallel-size",
      std::to_string(row.tensor),
      "--pipeline-model-parallel-size",
      std::to_string(row.pipeline),
      "--context-parallel-size",
      std::to_string(row.context),
      "--cp-comm-type",
      row.context_kind,
      "--pipeline-schedule",
      row.schedule};
  if (row.expert > 1) {
    flags.insert(
        flags.end(),
        {"--num-experts",
         "4",
         "--expert-model-parallel-size",
         std::to_string(row.expert)});
  }
  if (row.virtual_layers > 0) {
    flags.insert(
        flags.end(),
        {"--num-layers-per-virtual-pipeline-stage",
         std::to_string(row.virtual_layers)});
  }
  if (row.sequence_parallel) {
    flags.push_back("--sequence-parallel");
  }
  if (drops_tokens(row.model)) {
    flags.push_back("--random-ltd");
  }
  if (has_documents(row.model)) {
    flags.push_back("--reset-attention-mask");
  }
  if (row.recompute) {
    flags.push_back("--checkpoint-activations");
  }
  flags.insert(flags.end(), row.flags.begin(), row.flags.end());
  return config::Config::load(
      {.json = settings.dump(), .flags = flags, .world_size = row.ranks()});
}

struct Training {
  Training(const Row& the_row, const distributed::World& world)
      : row(the_row),
        description(describe(row.model)),
        config(config_of(row)),
        mesh(mesh_of(config.flags.distributed, world.group())) {
    const Logger logger({.least = LogLevel::error});
    check_stages(
        description,
        config,
        pretraining_inputs(description, config.flags));
    BuildOptions building = build_options(description, config.flags);
    if (row.ranks() > 1) { // one process has the weights from the start
      building.later = std::make_shared<nn::LaterValues>();
    }
    const Model model = build_model(
        description,
        config,
        mesh,
        at::Device(world.device_name()),
        logger,
        building);
    engine.emplace(initialize({.model = model,
                               .later_values = building.later,
                               .mesh = mesh,
                               .same_use_in_all_passes = true, // as pretrain
                               .settings = config,
                               .world = world,
                               .logger = logger})
                       .engine);
    engine->count_zeros_in_gradient();
  }

  Point step() {
    const distributed::ProcessGroup& sharing =
        mesh.along(distributed::Axis::data);
    const int passes = micro_batches / sharing.size();
    const int number = static_cast<int>(engine->progress().global_steps);
    int pass = 0;
    models::PretrainingOptions options;
    if (has_documents(row.model)) {
      options.reset_attention_after = end_of_document;
      options.documents_without_mask = has_ring(config.flags.distributed);
    }
    const auto next = [&] {
      const int in_step = sharing.rank() * passes + pass++;
      data::TensorBatch batch =
          batch_of(row.model, number, in_step).to(engine->device());
      if (const auto length = engine->curriculum_seqlen()) {
        for (auto& [name, tensor] : batch.tensors) {
          tensor = tensor.narrow(1, 0, *length).contiguous();
        }
      }
      return for_training(
          models::own_sequence(
              models::pretraining_input(description, batch, options),
              context_of(config.flags.distributed, mesh)),
          config.deepspeed.random_ltd,
          number + 1,
          2 * (number * micro_batches + in_step));
    };
    std::map<std::string, double> sums;
    const auto add = [&](const auto& losses, int times) {
      for (const auto& [name, loss] : losses) {
        sums[name] += loss.template item<double>() * times;
      }
    };
    if (row.pipeline > 1) {
      engine->train_batch([&] {
        return std::optional(micro_batch_of(
            description,
            pretraining_inputs(description, config.flags),
            next()));
      });
      add(engine->loss_parts(), passes);
    } else {
      while (pass < passes) {
        const auto output = engine->forward<models::ModelOutput>(next());
        add(output.losses, 1);
        engine->backward(output.loss);
        engine->step();
      }
    }
    const auto states = engine->state_sums({"exp_avg_sq", "weight"});
    EXPECT_NEAR(states[1].norm(), engine->parameter_norm(), 1e-6);
    Point point{
        .norm = engine->gradient_norm().value(),
        .zeros =
            static_cast<double>(engine->progress().zeros_in_gradient.value()),
        .weights = engine->parameter_norm(),
        .variance = states[0]};
    for (const auto& [name, sum] : sums) {
      point.losses.push_back(
          mesh.data_context()
              .all_reduce(at::full(
                  {1},
                  sum,
                  at::TensorOptions(at::kDouble).device(engine->device())))
              .wait()
              .item<double>() /
          (micro_batches * row.context));
    }
    return point;
  }

  Row row;
  model::ModelDescription description;
  config::Config config;
  distributed::ProcessMesh mesh;
  std::optional<Engine> engine;
};

} // namespace cairn::pretrain::parity
