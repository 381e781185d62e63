#include "pretrain/run_flops.h"

#include "engine/device_memory.h"

#include <cairn/monitor/device_peak.h>
#include <cairn/monitor/flops.h>

namespace cairn::pretrain {

std::optional<double> peak_flops(const RunParts& parts) {
  const Engine& engine = parts.engine;
  std::optional<monitor::DevicePeak> peak;
  if (const auto& stated = parts.config.flags.logging.peak_tflops) {
    peak = monitor::stated_peak(*stated);
  } else {
    const bool half = engine.fp16_enabled() || engine.bfloat16_enabled() ||
        parts.config.deepspeed.amp.enabled;
    peak = monitor::known_peak(
        engine::hardware_name(engine.device()),
        half ? monitor::Arithmetic::half : monitor::Arithmetic::full);
  }
  if (!peak) {
    return std::nullopt;
  }
  parts.logger.info("MFU is the share of {}", peak->source);
  return peak->flops;
}

namespace {

/// The MLP's size, on average over the layers: a token passes through as many
/// experts as it goes to, and what is beside them.
std::int64_t active_feed_forward(const checkpoints::ModelDescription& model) {
  std::int64_t passes = 0;
  for (std::int64_t i = 0; i < model.layers; ++i) {
    passes += checkpoints::experts_in_layer(model, i) == 0
        ? 1
        : model.experts->top_k + (model.experts->residual ? 1 : 0);
  }
  return model.ffn * passes / model.layers;
}

} // namespace

double flops_per_sample(const RunParts& parts, std::int64_t sequence) {
  const checkpoints::ModelDescription& model = parts.model;
  const bool two_stacks = parts.kind == Kind::t5;
  const monitor::TransformerShape shape{
      .layers = two_stacks ? model.decoder_layers : model.layers,
      .encoder_layers = two_stacks ? model.layers : 0,
      .hidden = model.hidden,
      .feed_forward = active_feed_forward(model),
      .heads = model.heads,
      .kv_heads = model.key_value_heads,
      .head_size = model.head_size,
      .vocabulary = model.padded_vocabulary,
      .gated = model.gated,
      .causal = parts.kind != Kind::bert};
  return two_stacks
      ? monitor::megatron_flops(
            shape,
            parts.config.flags.data.decoder_seq_length.value_or(128),
            sequence)
      : monitor::megatron_flops(shape, sequence);
}

} // namespace cairn::pretrain
