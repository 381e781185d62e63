#pragma once

#include <cairn/checkpoints/checkpoint_format.h>
#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/checkpoints/slices.h>
#include <cairn/model/description.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::checkpoints {

struct ForeignTrainingOptions {
  std::filesystem::path input; ///< a run's folder, or that of a checkpoint
  std::optional<std::int64_t> step{}; ///< unset: the newest
  MegatronReadOptions megatron{};
  bool optimizer =
      true; ///< false: leaves the optimizer's states where they are
  /// Name of the run's optimizer, where the states leave it open.
  std::string optimizer_name{};
};

/// A training that another program saved, as Engine::restore_state() takes it.
struct ForeignTraining {
  CheckpointFormat format = CheckpointFormat::megatron;
  std::optional<model::ModelDescription> description;
  NamedTensors weights; ///< as exact as they were saved
  /// Weights and states under an engine's names. They are read when they are
  /// asked for, only the parts that are.
  std::shared_ptr<const Source> tensors;
  std::string numbers; ///< JSON, as in a manifest's "state"
  std::int64_t steps = 0;
  std::int64_t samples = 0; ///< 0: not known
  bool released = false;    ///< weights alone, without an iteration
  bool optimizer = false;   ///< true when the states are there
  bool loss_scaler = false;
  bool schedule = false; ///< true when the schedule's own count is there
  /// True when the files have states of random generators, which have no
  /// meaning here: ours follow from a seed.
  bool random_states = false;
  std::optional<std::int64_t> seed; ///< of the run that saved it, if it is said
  std::vector<std::string> left_out; ///< what the files have and we do not take
};

/// Opens a checkpoint of another program. Throws CheckpointError.
ForeignTraining open_training(const ForeignTrainingOptions& options);

} // namespace cairn::checkpoints
