#include "models/block_options.h"

namespace cairn::models {
namespace {

std::shared_ptr<const nn::Rotary> rotary_of(const ModelDescription& d) {
  if (d.position != model::PositionKind::rotary) {
    return nullptr;
  }
  return std::make_shared<const nn::Rotary>(nn::RotaryOptions{
      .head_size = model::rotary_elements(d),
      .theta = d.rope_theta,
      .scaling = d.rope_scaling});
}

} // namespace

nn::LayerContext layer_context(const ModelOptions& options) {
  nn::LayerContext context{
      .group = options.tensor_group,
      .expert_group = options.expert_group,
      .sequence_parallel = options.sequence_parallel,
      .sequence = options.sequence,
      .dtype = options.dtype,
      .device = options.device,
      .initial = std::nullopt,
      .later = options.later,
      .dropout_seed = options.dropout_seed};
  if (options.seed) {
    context.initial = nn::InitialWeights{
        .seed = *options.seed,
        .std = options.initial_std,
        .output_std = options.initial_std};
  }
  return context;
}

nn::NormOptions norm_options(const ModelDescription& d) {
  return {d.norm, d.norm_epsilon};
}

nn::VocabularyOptions vocabulary_of(const ModelDescription& d) {
  return {d.vocabulary, d.padded_vocabulary};
}

nn::BlockOptions block_options(const ModelDescription& d, Role role) {
  nn::BlockOptions options;
  options.attention = {
      .hidden = d.hidden,
      .heads = d.heads,
      .key_value_heads = d.key_value_heads,
      .head_size = d.head_size,
      .bias = d.attention_bias,
      .query_key_value_bias = d.query_key_value_bias,
      .query_key_norm =
          d.query_key_norm ? std::optional(norm_options(d)) : std::nullopt,
      .causal = role != Role::encoder,
      .dropout = d.attention_dropout,
      .rotary = rotary_of(d)};
  if (d.position == model::PositionKind::relative) {
    options.attention.scale = 1; // T5 has it in its initial weights
  }
  options.mlp = {
      .hidden = d.hidden,
      .ffn = d.ffn,
      .activation = d.activation,
      .gated = d.gated,
      .bias = d.mlp_bias};
  options.norm = norm_options(d);
  options.norm_place = d.norm_place;
  options.parallel_residual = d.parallel_residual;
  options.cross_attention = role == Role::crossing_decoder;
  options.dropout = d.dropout;
  return options;
}

nn::BlockOptions block_options(
    const nn::BlockOptions& all,
    const ModelDescription& d,
    std::int64_t layer) {
  nn::BlockOptions options = all;
  const std::int64_t experts = model::experts_in_layer(d, layer);
  if (experts == 0) {
    return options;
  }
  const model::ExpertsDescription& e = *d.experts;
  constexpr double jitter = 1e-2; // DeepSpeed's
  options.mixture = nn::MixtureOptions{
      .expert = options.mlp,
      .experts = experts,
      .routing =
          {.top_k = e.top_k,
           .capacity_factor = e.train_capacity_factor,
           .min_capacity = e.min_capacity,
           .drop_tokens = e.drop_tokens,
           .random_selection = e.random_selection,
           .sample_second = e.sample_second,
           .sample_first = e.noise == model::RouterNoise::sample},
      .eval_capacity_factor = e.eval_capacity_factor,
      .jitter = e.noise == model::RouterNoise::jitter ? jitter : 0,
      .residual = e.residual};
  return options;
}

} // namespace cairn::models
