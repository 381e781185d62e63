#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace cairn::config {

/// The content of `optimizer.params`. Absent values take the default of the
/// chosen rule, which its own file in `optim/` knows.
struct OptimizerParams {
  std::optional<double> lr;
  std::optional<std::array<double, 2>> betas;
  std::optional<double> eps;
  std::optional<double> weight_decay;
  std::optional<bool> bias_correction;
  std::optional<bool> adam_w_mode;
  std::optional<bool> torch_adam;
  std::optional<bool> amsgrad;
  std::optional<double> momentum;
  std::optional<double> dampening;
  std::optional<bool> nesterov;
  std::optional<double> lr_decay;
  std::optional<double> initial_accumulator_value;
  std::optional<double> max_coeff;
  std::optional<double> min_coeff;
  std::optional<double> muon_lr;
  std::optional<double> adam_lr;
  std::optional<std::string> ns_method;
  std::optional<double> max_grad_norm;
  std::optional<std::int64_t> freeze_step;
  std::optional<bool> cuda_aware;
  std::optional<std::string> comm_backend_name;
  std::optional<double> coeff_beta;
  std::optional<double> factor_max;
  std::optional<double> factor_min;
  std::optional<double> factor_threshold;
  std::optional<std::int64_t> var_freeze_step;
  std::optional<std::int64_t> var_update_scaler;
  std::optional<std::int64_t> local_step_scaler;
  std::optional<std::int64_t> local_step_clipper;
};

struct OptimizerConfig {
  /// DeepSpeed's own optimizers in lower case ("adamw"), others as written.
  std::optional<std::string> type;
  std::optional<OptimizerParams> params;
  bool legacy_fusion = false;
};

/// The content of `scheduler.params`; the schedules know their defaults.
struct SchedulerParams {
  std::optional<double> warmup_min_lr;
  std::optional<double> warmup_max_lr;
  std::optional<std::int64_t> warmup_num_steps;
  std::optional<std::string> warmup_type; ///< "log" or "linear"
  std::optional<std::int64_t> total_num_steps;
  std::optional<double> warmup_min_ratio;
  std::optional<double> cos_min_ratio;
  std::optional<double> cycle_min_lr;
  std::optional<double> cycle_max_lr;
  std::optional<double> decay_lr_rate;
  std::optional<std::int64_t> cycle_first_step_size;
  std::optional<std::int64_t> cycle_second_step_size;
  std::optional<std::int64_t> cycle_first_stair_count;
  std::optional<std::int64_t> cycle_second_stair_count;
  std::optional<std::int64_t> decay_step_size;
  std::optional<bool> cycle_momentum;
  std::optional<double> cycle_min_mom;
  std::optional<double> cycle_max_mom;
  std::optional<double> decay_mom_rate;
  std::optional<double> lr_range_test_min_lr;
  std::optional<std::int64_t> lr_range_test_step_size;
  std::optional<double> lr_range_test_step_rate;
  std::optional<bool> lr_range_test_staircase;
  std::optional<std::int64_t> last_batch_iteration;
};

struct SchedulerConfig {
  std::optional<std::string> type; ///< "WarmupLR", "OneCycle", …
  std::optional<SchedulerParams> params;
};

} // namespace cairn::config
