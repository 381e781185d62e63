#include "engine/build/offered_options.h"

#include "config/internal/curriculum_length.h"

#include <utility>

namespace cairn::inline engine {

OfferedOptions::OfferedOptions(const Job& job)
    : job_(job),
      checkpointing_(nn::CheckpointOptions::from(
          job.deepspeed().activation_checkpointing,
          job.mesh ? job.mesh->along(distributed::Axis::tensor)
                   : distributed::ProcessGroup(),
          job.logger)) {}

const nn::CheckpointOptions& OfferedOptions::checkpointing() {
  checkpointing_used_ = true;
  return checkpointing_;
}

std::optional<std::int64_t> OfferedOptions::curriculum_length(
    std::int64_t update) {
  curriculum_used_ = true;
  if (!job_.deepspeed().curriculum.enabled) {
    return std::nullopt;
  }
  return config::curriculum_length(job_.deepspeed().curriculum, update);
}

void OfferedOptions::warn_of_no_effect() const {
  const auto& partition_over = checkpointing_.partition_over;
  if (job_.speaks() && partition_over && partition_over->size() == 1) {
    job_.logger.warning(
        "activation_checkpointing.partition_activations has no effect: there "
        "is one tensor-parallel rank");
  }
}

void OfferedOptions::warn_of_unused() {
  if (std::exchange(warned_, true) || !job_.speaks()) {
    return;
  }
  if (job_.config.given.contains("activation_checkpointing") &&
      !checkpointing_used_) {
    job_.logger.warning(
        "activation_checkpointing is set, but the model does not use it; give "
        "engine.checkpoint_options() to its calls of cairn::checkpoint()");
  }
  if (job_.deepspeed().curriculum.enabled && !curriculum_used_) {
    job_.logger.warning(
        "curriculum_learning is set, but nobody asks for its length; cut every "
        "batch to engine.curriculum_seqlen()");
  }
}

} // namespace cairn::engine
