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

/// The part of a tensor that this rank has, and the other ranks of the model's
/// copy (tensor x pipeline) that have the same part.
struct ParameterShare {
  std::vector<std::int64_t> whole; ///< the shape of the whole tensor
  checkpoints::Box box{};          ///< empty: the whole tensor is here
  std::int64_t elements = 0;       ///< in the box; more are padding
  /// Ranks of the model parallel group, ascending. The first speaks for all: it
  /// counts in the gradient's norm, and it saves.
  std::vector<int> holders;
  /// Holders that each have a part of the gradient: the stages that a tied
  /// parameter is on, or ranks that each saw a part of the sequence.
  std::vector<int> summed;
  bool tied = false;   ///< on several pipeline stages
  bool expert = false; ///< of experts, divided over ranks with other batches
};

/// Shares of every parameter and buffer of a model, in their orders.
struct ModelShares {
  std::vector<ParameterShare> parameters;
  std::vector<ParameterShare> buffers;
  /// Other names of parameters on any rank, as in ModelParameters.
  std::vector<std::pair<std::string, std::string>> ties;
};

/// Makes the shares. All ranks of the model parallel group call it, and tell
/// each other their parts. Throws UsageError if they contradict each other.
ModelShares share_model(
    const torch::nn::Module& module,
    const ModelParameters& parameters,
    const distributed::ProcessMesh& mesh);

/// The shares of a model that is whole on this rank.
ModelShares unshared(
    const torch::nn::Module& module,
    const ModelParameters& parameters);

} // namespace cairn::engine
