#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/nn/context_parallel.h>
#include <cairn/nn/initial_weights.h>
#include <cairn/nn/parameter_slices.h>
#include <cairn/nn/sliced_shape.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::nn {

/// The context that every layer is built with. Layers do not know the mesh:
/// with a group of one they are ordinary layers.
///
/// Activations are [batch, sequence, hidden]. Where the sequence is split, each
/// rank has [batch, sequence / ranks, hidden] between the parallel parts: a
/// contiguous share of all tokens of the batch. Tokens are therefore gathered
/// and scattered without a copy.
struct LayerContext {
  distributed::ProcessGroup group{}; ///< ranks that share the layer
  /// Ranks that divide its experts.
  distributed::ProcessGroup expert_group{};
  bool sequence_parallel = false;
  /// Ranks that have a part of every sequence each; `group` then shares that
  /// part.
  ContextParallel sequence{};
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  /// The initial values of parameters. Unset: they are not filled, because
  /// weights will be loaded.
  std::optional<InitialWeights> initial = InitialWeights{};
  std::uint64_t dropout_seed = 1234;
  std::string path{}; ///< path in the whole model: "layers.3.mlp"

  LayerContext in(std::string_view child) const;
  bool splits_tokens() const { return sequence_parallel && group.size() > 1; }
};

/// The part of a parameter's gradient that this rank computes.
enum class Gradient {
  /// The whole gradient.
  complete,
  of_own_tokens, ///< the part from its own tokens, where the sequence is split
  /// The contributions of all ranks of the expert group.
  of_experts
};

/// A module that knows which slices of its parameters it holds.
class Layer : public torch::nn::Module, public HoldsSlices {
 public:
  std::vector<ParameterSlice> parameter_slices() const override {
    return slices_;
  }
  std::vector<std::string> partial_gradients() const override {
    return partial_;
  }
  std::vector<std::string> expert_parameters() const override {
    return expert_;
  }

 protected:
  at::Tensor add_parameter(
      const LayerContext& context,
      const std::string& name,
      const SlicedShape& shape,
      model::InitialLaw law,
      Gradient gradient = Gradient::complete);

 private:
  std::vector<ParameterSlice> slices_;
  std::vector<std::string> partial_;
  std::vector<std::string> expert_;
};

} // namespace cairn::nn
