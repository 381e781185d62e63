#include "base/internal/ascii_case.h"
#include "config/keys/deepspeed_reader.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

// Rules by which DeepSpeed itself completes or refuses a file. Cairn's own
// refusals are in check.cpp.

namespace cairn::config {
void resolve_deepspeed(
    DeepSpeedConfig& config,
    const std::map<std::string, Place>& given) {
  const auto refuse =
      [&](const std::string& path, std::string what, std::string remedy = "") {
        throw ConfigError(
            {.what = std::move(what),
             .where = place_of(given, path),
             .remedy = std::move(remedy)});
      };

  ZeroConfig& zero = config.zero;
  if (!zero.overlap_comm) {
    zero.overlap_comm = zero.stage == ZeroStage::weights;
  }
  if (zero.offload_optimizer && zero.offload_optimizer->ratio < 1.0 &&
      zero.stage != ZeroStage::weights) {
    refuse(
        "zero_optimization.offload_optimizer.ratio",
        fmt::format(
            "offloading part of the optimizer needs stage 3, not stage {}",
            static_cast<int>(zero.stage)),
        "drop ratio, or set stage to 3");
  }

  if (config.fp16.enabled && config.bf16.enabled) {
    refuse(
        "fp16.enabled",
        "fp16 and bf16 exclude each other",
        fmt::format("drop this or {}", place_of(given, "bf16.enabled")));
  }
  if (config.fp16.enabled && config.fp16.loss_scale == 0) {
    const auto need_positive = [&](const char* name, std::int64_t value) {
      if (value <= 0) {
        refuse(
            std::string("fp16.") + name,
            fmt::format(
                "{} must be greater than 0 while the loss scale adapts",
                value),
            "or fix the scale with loss_scale");
      }
    };
    need_positive("loss_scale_window", config.fp16.loss_scale_window);
    need_positive("min_loss_scale", config.fp16.min_loss_scale);
  }
  const auto need_zero = [&](const char* path, bool set) {
    if (set && zero.stage == ZeroStage::disabled) {
      refuse(path, "needs ZeRO stage 1, 2 or 3");
    }
  };
  need_zero(
      "fp16.fp16_master_weights_and_grads",
      config.fp16.fp16_master_weights_and_grads);
  need_zero(
      "bf16.bf16_master_weights_and_grads",
      config.bf16.bf16_master_weights_and_grads);
  need_zero("bf16.bf16_optimizer_states", config.bf16.bf16_optimizer_states);
  if (config.bf16.bf16_optimizer_states &&
      !config.bf16.bf16_master_weights_and_grads) {
    refuse("bf16.bf16_optimizer_states", "needs bf16_master_weights_and_grads");
  }
  if (config.gradients.allreduce_op == ReduceOp::sum &&
      zero.stage == ZeroStage::weights) {
    refuse("gradient_allreduce_op", "\"sum\" does not go with ZeRO stage 3");
  }

  if (config.flops_profiler.enabled) {
    config.logging.wall_clock_breakdown = true;
  }
  static constexpr std::array own_optimizers{
      "adagrad",
      "adam",
      "adamw",
      "lamb",
      "onebitadam",
      "onebitlamb",
      "zerooneadam",
      "muadam",
      "muadamw",
      "musgd",
      "lion",
      "muon"};
  if (config.optimizer.type) {
    const std::string name = lower_case(*config.optimizer.type);
    if (std::find(own_optimizers.begin(), own_optimizers.end(), name) !=
        own_optimizers.end()) {
      config.optimizer.type = name;
    }
  }
}

} // namespace cairn::config
