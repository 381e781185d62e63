#pragma once

#include <cairn/base/log.h>
#include <cairn/distributed/process_group.h>

#include <memory>
#include <optional>

namespace cairn::config {
struct ActivationCheckpointingConfig;
} // namespace cairn::config

namespace cairn::nn {

class ActivationBuffer;

/// The way in which checkpoint() keeps its inputs from forward to backward. By
/// default it keeps them where they are, by reference; the options change that
/// for floating-point activations. Integers, and leaves that require grad and
/// live on anyway, are always kept by reference.
struct CheckpointOptions {
  /// True: inputs rest in CPU memory. Those from a GPU are in pinned memory and
  /// are copied beside the computation.
  bool on_cpu = false;
  /// Group whose ranks all have the same inputs and make the same calls. Each
  /// rank keeps its part of the inputs, and backward gathers the parts.
  std::optional<distributed::ProcessGroup> partition_over{};
  /// Memory reserved at once for copied inputs; see from().
  std::shared_ptr<ActivationBuffer> buffer{};
  /// True: wait for the GPU at the beginning and the end of both passes.
  bool synchronize = false;
  /// Logs how long both passes took, which waits for the GPU as well.
  std::optional<Logger> profile{};

  /// Options that `activation_checkpointing` of a DeepSpeed configuration asks
  /// for. Throws ConfigError for keys that could have no effect. Copies share
  /// one buffer, so make one set of options for a model and pass it everywhere.
  static CheckpointOptions from(
      const config::ActivationCheckpointingConfig& config,
      const distributed::ProcessGroup& tensor_parallel,
      const Logger& log = Logger());
};

} // namespace cairn::nn
