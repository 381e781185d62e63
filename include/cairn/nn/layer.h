#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/nn/context_parallel.h>
#include <cairn/nn/initial_weights.h>
#include <cairn/nn/parameter_slices.h>
#include <cairn/nn/sliced_shape.h>
#include <torch/nn/module.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::nn {

/// What every layer is built with. Layers know no mesh: with a group of one
/// they are ordinary layers.
///
/// Activations are [batch, sequence, hidden]. Where the sequence is split each
/// rank has [batch, sequence / ranks, hidden] between the parallel parts: its
/// share, in a row, of all the batch's tokens. So tokens are gathered and
/// scattered without a copy.
struct LayerContext {
  distributed::ProcessGroup group{};        ///< that shares the layer
  distributed::ProcessGroup expert_group{}; ///< that shares out its experts
  bool sequence_parallel = false;
  /// Ranks that have a part of every sequence each; `group` then shares that.
  ContextParallel sequence{};
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  /// None: parameters are left unset, for weights that are loaded.
  std::optional<InitialWeights> initial = InitialWeights{};
  std::string path{}; ///< of the layer in the whole model: "layers.3.mlp"

  LayerContext in(std::string_view child) const;
  bool splits_tokens() const { return sequence_parallel && group.size() > 1; }
};

/// Of a parameter, whether this rank's gradient is all of it.
enum class Gradient {
  complete,
  of_own_tokens, ///< a part, where the sequence is split
  of_experts     ///< all that the ranks of the expert group have for it
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
      StartValue start,
      Gradient gradient = Gradient::complete);

 private:
  std::vector<ParameterSlice> slices_;
  std::vector<std::string> partial_;
  std::vector<std::string> expert_;
};

} // namespace cairn::nn
