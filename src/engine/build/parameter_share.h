#pragma once

#include "engine/build/model_parameters.h"

#include <cairn/checkpoints/slices.h>
#include <cairn/distributed/process_mesh.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline engine {

/// What this rank has of a tensor of the model, and which other ranks of the
/// model's copy (tensor x pipeline) have the very same.
struct ParameterShare {
  std::vector<std::int64_t> whole; ///< the shape of all of it
  checkpoints::Box box{};          ///< empty: all of it is here
  std::int64_t elements = 0;       ///< in the box; more are padding
  /// Ranks of the model parallel group, ascending. The first speaks for all:
  /// it counts in the gradient's norm and is the one that saves.
  std::vector<int> holders;
  /// Those of them that each have a part of the gradient: the stages that a
  /// tied parameter is on, or ranks that each saw a part of the sequence.
  std::vector<int> summed;
  bool tied = false;   ///< on several pipeline stages
  bool expert = false; ///< of experts that ranks with other batches share out
};

/// Shares of every parameter and buffer of a model, in their orders.
struct ModelShares {
  std::vector<ParameterShare> parameters;
  std::vector<ParameterShare> buffers;
  /// Other names of parameters on any rank, as in ModelParameters.
  std::vector<std::pair<std::string, std::string>> ties;
};

/// All ranks of the model parallel group call it, and tell each other what they
/// have. Throws UsageError if they contradict each other.
ModelShares share_model(
    const torch::nn::Module& module,
    const ModelParameters& parameters,
    const distributed::ProcessMesh& mesh);

/// A model that no other rank has a part of.
ModelShares unshared(
    const torch::nn::Module& module,
    const ModelParameters& parameters);

} // namespace cairn::inline engine
