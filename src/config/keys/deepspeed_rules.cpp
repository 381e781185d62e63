#include "base/internal/ascii_case.h"
#include "config/keys/deepspeed_reader.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

// Rules by which DeepSpeed itself completes or refuses a file. Cairn's own
// refusals are in check.cpp.

namespace cairn::config {
namespace {

using Given = std::map<std::string, Place>;

[[noreturn]] void refuse_key(
    const Given& given,
    const std::string& path,
    std::string what,
    std::string remedy = "") {
  throw ConfigError(
      {.what = std::move(what),
       .where = place_of(given, path),
       .remedy = std::move(remedy)});
}

/// DeepSpeed splits the optimizer at stage 3 alone. Cairn does so at every
/// stage, for files that are Cairn's by their `update_on`, and for flags.
void check_offload(const ZeroConfig& zero, const Given& given) {
  const std::string path = "zero_optimization.offload_optimizer.ratio";
  const auto place = given.find(path);
  const bool in_file = place != given.end() && !place->second.file.empty();
  if (in_file && zero.offload_optimizer &&
      zero.offload_optimizer->ratio < 1.0 &&
      !zero.offload_optimizer->update_on && zero.stage != ZeroStage::weights) {
    refuse_key(
        given,
        path,
        fmt::format(
            "offloading part of the optimizer needs stage 3, not stage {}",
            static_cast<int>(zero.stage)),
        "drop ratio, set stage to 3, or add \"update_on\": \"gpu\", which "
        "DeepSpeed does not know");
  }
}

void check_number_formats(const DeepSpeedConfig& config, const Given& given) {
  if (config.fp16.enabled && config.bf16.enabled) {
    refuse_key(
        given,
        "fp16.enabled",
        "fp16 and bf16 exclude each other",
        fmt::format("drop this or {}", place_of(given, "bf16.enabled")));
  }
  if (config.fp16.enabled && config.fp16.loss_scale == 0) {
    const auto need_positive = [&](const char* name, std::int64_t value) {
      if (value <= 0) {
        refuse_key(
            given,
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
}

/// Refuses what goes with some stages of ZeRO only.
void check_stage(const DeepSpeedConfig& config, const Given& given) {
  const ZeroStage stage = config.zero.stage;
  const auto need_zero = [&](const char* path, bool set) {
    if (set && stage == ZeroStage::disabled) {
      refuse_key(given, path, "needs ZeRO stage 1, 2 or 3");
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
    refuse_key(
        given,
        "bf16.bf16_optimizer_states",
        "needs bf16_master_weights_and_grads");
  }
  if (config.gradients.allreduce_op == ReduceOp::sum &&
      stage == ZeroStage::weights) {
    refuse_key(
        given,
        "gradient_allreduce_op",
        "\"sum\" does not go with ZeRO stage 3");
  }
}

/// True for DeepSpeed's own optimizers; the others are torch.optim's.
bool is_own_optimizer(const std::string& lower_case_name) {
  static constexpr std::array names{
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
  return std::find(names.begin(), names.end(), lower_case_name) != names.end();
}

} // namespace

void resolve_deepspeed(DeepSpeedConfig& config, const Given& given) {
  if (!config.zero.overlap_comm) {
    config.zero.overlap_comm = config.zero.stage == ZeroStage::weights;
  }
  check_offload(config.zero, given);
  check_number_formats(config, given);
  check_stage(config, given);
  if (config.flops_profiler.enabled) {
    config.logging.wall_clock_breakdown = true;
  }
  if (config.optimizer.type) {
    const std::string name = lower_case(*config.optimizer.type);
    if (is_own_optimizer(name)) {
      config.optimizer.type = name;
    }
  }
}

} // namespace cairn::config
