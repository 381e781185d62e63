#include "engine/build/precision.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

namespace cairn::inline engine {

namespace {

at::ScalarType scalar_of(config::DataType type) {
  switch (type) {
    case config::DataType::fp16:
      return at::kHalf;
    case config::DataType::bf16:
      return at::kBFloat16;
    case config::DataType::fp32:
      break;
  }
  return at::kFloat;
}

std::string_view name_of(at::ScalarType type) {
  return type == at::kHalf ? "fp16" : type == at::kBFloat16 ? "bf16" : "fp32";
}

std::string describe_states(const zero::StateTypes& types) {
  if (!types.any_narrow()) {
    return "";
  }
  return fmt::format(
      " as bf16 and a remainder, states in {} and {}",
      name_of(types.states[0]),
      name_of(types.states[1]));
}

} // namespace

Precision precision_of(const config::DeepSpeedConfig& config, bool on_gpu) {
  Precision precision;
  if (config.fp16.enabled) {
    precision.compute = at::kHalf;
    precision.accumulate = at::kHalf;
  } else if (config.bf16.enabled) {
    // Sums of many small numbers lose the small ones in bf16's 8 bits.
    precision.compute = at::kBFloat16;
    precision.accumulate = at::kFloat;
  }
  if (config.amp.enabled) {
    if (config.zero.stage != config::ZeroStage::disabled) {
      throw ConfigError(
          {.what = "amp and ZeRO exclude each other",
           .where = "amp.enabled",
           .values = fmt::format(
               "zero_optimization.stage {}",
               static_cast<int>(config.zero.stage)),
           .remedy = "use bf16 or fp16 with ZeRO"});
    }
    if (config.amp.opt_level != "O1") {
      throw ConfigError(
          {.what = "amp knows the level O1 only",
           .where = "amp.opt_level",
           .values = config.amp.opt_level,
           .remedy = "use O1, or fp16/bf16 for 16-bit weights"});
    }
    precision.autocast = true;
    precision.autocast_type = on_gpu ? at::kHalf : at::kBFloat16;
  }
  precision.communicate = precision.compute;
  if (config.data_types.grad_accum_dtype) {
    precision.accumulate = scalar_of(*config.data_types.grad_accum_dtype);
  }
  const config::DataTypesConfig& types = config.data_types;
  precision.optimizer = {
      .split_weights = types.precision_aware_optimizer,
      .states = {
          scalar_of(types.exp_avg_dtype),
          scalar_of(types.exp_avg_sq_dtype)}};
  if (config.gradients.communication_data_type) {
    precision.communicate =
        scalar_of(*config.gradients.communication_data_type);
  }
  return precision;
}

std::string describe(const Precision& precision) {
  return fmt::format(
      "precision: {} compute{}, fp32 weights in the optimizer{}, {} gradient "
      "accumulation, {} communication",
      name_of(precision.compute),
      precision.autocast ? fmt::format(
                               " with autocast to {}",
                               name_of(precision.autocast_type))
                         : "",
      describe_states(precision.optimizer),
      name_of(precision.accumulate),
      name_of(precision.communicate));
}

} // namespace cairn::engine
