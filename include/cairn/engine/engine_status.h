#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Facts about itself that an Engine returns.

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

/// How far an engine has trained, and figures of its last update.
struct EngineProgress {
  std::int64_t global_steps = 0; ///< updates, skipped ones included
  std::int64_t micro_steps = 0;
  std::int64_t global_samples = 0; ///< of those updates, over all ranks
  std::int64_t skipped_steps = 0;  ///< updates whose gradients overflowed
  double loss_scale = 1;
  /// Learning rates of the next update, of each parameter group.
  std::vector<double> learning_rates{};
  /// Zeros in the gradient of the last update, summed over all ranks; unset
  /// unless Engine::count_zeros_in_gradient() is on.
  std::optional<std::int64_t> zeros_in_gradient{};
};

/// Bytes that one rank holds for training, by kind. What is not said to be
/// elsewhere is on `device`, where the model computes.
struct MemoryReport {
  std::string device;
  std::int64_t parameters = 0; ///< resting: whole buckets and shards
  std::int64_t gathered = 0;   ///< stage 3: live for an operator, on top
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0; ///< fp32 weights and states
  std::int64_t buffers = 0;   ///< the module's own
  /// Measured: the most that the forward passes of a micro batch left for its
  /// backward. 0 before the first backward.
  std::int64_t activations = 0;
  // Elsewhere: in CPU memory only while the model is on a GPU, or to and from
  // a disk.
  std::int64_t parameters_on_cpu = 0;
  std::int64_t gradients_on_cpu = 0;
  std::int64_t optimizer_on_cpu = 0;
  std::int64_t parameters_on_disk = 0;
  std::int64_t optimizer_on_disk = 0;
  /// Measured, now and at most: what the process (CPU) or libtorch's allocator
  /// (GPU) has, and how much of it is none of the above.
  std::int64_t allocated = 0;
  std::int64_t most_allocated = 0;
  std::int64_t other = 0;

  std::int64_t model_states() const {
    return parameters + gradients + optimizer;
  }
  std::string describe() const; ///< a table for people
};

/// Sums over all elements of tensors that are spread over ranks; an element
/// that several ranks hold counts once, padding does not.
struct ElementSums {
  double squares = 0;
  double absolutes = 0; ///< of absolute values
  double roots = 0;     ///< of their square roots
  double largest = 0;   ///< of the absolute values

  double norm() const { return std::sqrt(squares); }
};

} // namespace cairn::engine
