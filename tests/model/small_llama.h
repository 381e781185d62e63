#pragma once

#include <cairn/model/description.h>

namespace cairn::model {

inline ModelDescription small_llama() {
  return {
      .family = ModelFamily::llama,
      .layers = 1,
      .hidden = 8,
      .heads = 4,
      .key_value_heads = 2,
      .head_size = 2,
      .ffn = 12,
      .vocabulary = 10,
      .padded_vocabulary = 16,
      .positions = 32,
      .position = PositionKind::rotary,
      .rope_scaling = RopeScaling{"llama3", 8, 1, 4, 8192},
      .norm = NormKind::rms_norm,
      .activation = ActivationKind::silu,
      .gated = true,
      .attention_bias = false,
      .mlp_bias = false,
      .tied_head = false,
      .end_token = 2};
}

inline ModelDescription llama_with_experts() {
  ModelDescription description = small_llama();
  description.layers = 4;
  description.experts = ExpertsDescription{
      .counts = {6, 1},
      .residual = true,
      .noise = RouterNoise::jitter};
  return description;
}

} // namespace cairn::model
