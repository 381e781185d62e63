#pragma once

#include <cstdint>

namespace cairn::inline engine {

/// The settings of an engine, as configured, under DeepSpeed's names. Only
/// Engine::set_train_batch_size() changes them.
struct EngineSettings {
  std::int64_t train_batch_size = 0; ///< samples of an update, over all ranks
  std::int64_t train_micro_batch_size_per_gpu = 0;
  std::int64_t gradient_accumulation_steps = 1; ///< micro batches of an update
  int zero_optimization_stage = 0;
  bool fp16_enabled = false;
  bool bfloat16_enabled = false;
  bool loss_is_scaled = false; ///< with fp16, and with amp where it is fp16
};

} // namespace cairn::engine
