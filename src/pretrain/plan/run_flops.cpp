#include "pretrain/plan/run_flops.h"

#include "engine/internal/device_memory.h"
#include "model/internal/flops.h"
#include "monitor/internal/device_peak.h"

namespace cairn::pretrain {

std::optional<double> peak_flops(const RunParts& parts) {
  const Engine& engine = parts.engine;
  std::optional<monitor::DevicePeak> peak;
  if (const auto& stated = parts.config.flags.logging.peak_tflops) {
    peak = monitor::stated_peak(*stated);
  } else {
    const EngineSettings settings = engine.settings();
    const bool half = settings.fp16_enabled || settings.bfloat16_enabled ||
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

double flops_per_sample(const RunParts& parts, std::int64_t sequence) {
  return model::megatron_flops(
      parts.model,
      sequence,
      parts.config.flags.data.decoder_seq_length.value_or(128));
}

} // namespace cairn::pretrain
