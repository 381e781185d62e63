#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cairn::config {

enum class DataType { fp32, fp16, bf16 };

/// The reaction to an overflow at the smallest loss scale.
enum class AtMinimumScale { stop, hold, roll_back };

struct Fp16Config {
  bool enabled = false;
  bool auto_cast = false;
  double loss_scale = 0;                 ///< 0: dynamic
  std::int64_t initial_scale_power = 16; ///< dynamic scale starts at 2^this
  std::int64_t loss_scale_window = 1000;
  std::int64_t hysteresis = 2;
  bool consecutive_hysteresis = false;
  std::int64_t min_loss_scale = 1;
  AtMinimumScale at_minimum_scale = AtMinimumScale::stop;
  bool fp16_master_weights_and_grads = false;
};

struct Bf16Config {
  bool enabled = false;
  bool immediate_grad_update = false;
  bool check_grad_overflow = true;
  bool bf16_master_weights_and_grads = false;
  bool bf16_optimizer_states = false;
};

/// Apex's: a number that stays, or "dynamic".
struct AmpLossScale {
  std::optional<double> fixed;
};

/// Autocast-style mixed precision.
struct AmpConfig {
  bool enabled = false;
  std::string opt_level = "O1";
  AmpLossScale loss_scale;
  double min_loss_scale = 1;
  double max_loss_scale = 16777216;
};

struct DataTypesConfig {
  std::optional<DataType> grad_accum_dtype;
  bool precision_aware_optimizer = false;
  DataType exp_avg_dtype = DataType::fp32;
  DataType exp_avg_sq_dtype = DataType::fp32;
  std::optional<DataType> param_dtype;
  std::optional<DataType> buffer_dtype;
};

} // namespace cairn::config
