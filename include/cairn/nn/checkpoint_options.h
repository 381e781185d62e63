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

/// How checkpoint() keeps its inputs from forward to backward. As it stands it
/// keeps them where they are, by reference; the rest says otherwise for
/// floating-point activations. Integers and leaves that require grad, which
/// live on anyway, are always kept by reference.
struct CheckpointOptions {
  /// They rest in CPU memory, pinned and copied beside the computation when
  /// they come from a GPU.
  bool on_cpu = false;
  /// Every rank of this group has the same inputs and makes the same calls:
  /// each keeps its part of them, and backward gathers the parts.
  std::optional<distributed::ProcessGroup> partition_over{};
  /// Room reserved at once for what is copied; see from().
  std::shared_ptr<ActivationBuffer> buffer{};
  /// Wait for the GPU at the beginning and the end of both passes.
  bool synchronize = false;
  /// Log how long both passes took, which waits for the GPU as well.
  std::optional<Logger> profile{};

  /// What `activation_checkpointing` of a DeepSpeed configuration asks for.
  /// Throws ConfigError for keys that could have no effect. Copies share one
  /// buffer; make one set of options for a model and pass it everywhere.
  static CheckpointOptions from(
      const config::ActivationCheckpointingConfig& config,
      const distributed::ProcessGroup& tensor_parallel,
      const Logger& log = Logger());
};

} // namespace cairn::nn
