#pragma once

#include "pretrain/internal/pretrain.h"

#include <string>
#include <vector>

namespace cairn::pretrain {

/// A command line with what --use-checkpoint-args has taken from a checkpoint.
struct CheckpointArgs {
  std::vector<std::string> words;
  std::vector<std::string> lines; ///< what was taken, and what gave way
};

/// The words, without --use-checkpoint-args and what belongs to it, and with
/// the arguments of the checkpoint that --load names. Other words stay as they
/// are. Throws ConfigError without --load and for another kind of model,
/// CheckpointError for a checkpoint that cannot be read.
CheckpointArgs with_checkpoint_args(Kind kind, std::vector<std::string> words);

} // namespace cairn::pretrain
