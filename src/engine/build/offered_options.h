#pragma once

#include "engine/build/job.h"

#include <cairn/nn/checkpoint.h>

#include <cstdint>
#include <optional>

namespace cairn::inline engine {

/// Options of the configuration that only the program can act on: it has to ask
/// for them. Warns of those that it never asks for.
class OfferedOptions {
 public:
  explicit OfferedOptions(const Job& job);

  /// The options by which the model keeps its activations.
  const nn::CheckpointOptions& checkpointing();
  bool checkpointing_used() const { return checkpointing_used_; }
  /// Length in tokens that samples of this update are cut to. Unset without a
  /// curriculum.
  std::optional<std::int64_t> curriculum_length(std::int64_t update);

  /// Warns of options that cannot have an effect in this job.
  void warn_of_no_effect() const;
  /// Warns once, with the first pass, of options that nobody asked for.
  void warn_of_unused();

 private:
  const Job& job_;
  nn::CheckpointOptions checkpointing_;
  bool checkpointing_used_ = false;
  bool curriculum_used_ = false;
  bool warned_ = false;
};

} // namespace cairn::engine
