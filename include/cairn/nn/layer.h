#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/process_group.h>
#include <cairn/model/parameters.h>
#include <cairn/nn/context_parallel.h>
#include <cairn/nn/later_values.h>
#include <cairn/nn/parameter_slices.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::nn {

/// Eight-bit formats of the factors of products. Weights and activations are
/// e4m3 (more digits) in both; gradients are e4m3 or, in hybrid, e5m2 (a wider
/// range).
enum class Fp8Format { e4m3, hybrid };

/// The shape of a parameter, and the box of it that this rank holds.
struct SlicedShape {
  std::vector<std::int64_t> whole;
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> local;

  static SlicedShape all_of(std::vector<std::int64_t> whole);
  /// Gives each rank an equal share of `dim`. Throws ConfigError, naming
  /// `what`, where `dim` does not divide.
  static SlicedShape cut(
      std::vector<std::int64_t> whole,
      std::size_t dim,
      const distributed::ProcessGroup& group,
      const std::string& what);
  /// Gives each rank a share of the first dimension, padded to `padded` rows.
  /// The shares of the last ranks may be padding, in part or wholly.
  static SlicedShape cut_padded(
      std::vector<std::int64_t> whole,
      std::int64_t padded,
      const distributed::ProcessGroup& group);

  bool is_whole() const { return local == whole; }
};

/// Random initial weights, keyed by (seed, the parameter's name, the element's
/// place in the whole parameter): every layout of ranks starts from the same
/// bits.
struct InitialWeights {
  std::uint64_t seed = 1234;
  double std = 0.02;
  double output_std = 0.02; ///< see model::output_deviation()
  /// Rows of a matrix that start smaller or larger than the others: the first
  /// `rows` of every `period` are divided by `by`.
  struct DividedRows {
    std::int64_t period = 0; ///< 0: there are none
    std::int64_t rows = 0;
    double by = 1;
  };
  DividedRows divided{};

  /// Fills a stretch of the local part of the parameter called `name` in the
  /// whole model: the elements from `first` on of the flattened part.
  void fill(
      const at::Tensor& values,
      std::int64_t first,
      const std::string& name,
      const SlicedShape& shape,
      model::InitialLaw law) const;
};

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
  /// The linear layers that ranks divide multiply in fp8; unset: in `dtype`.
  std::optional<Fp8Format> fp8{};
  /// The initial values of parameters. Unset: they are not filled, because
  /// weights will be loaded.
  std::optional<InitialWeights> initial = InitialWeights{};
  /// Parameters have no memory yet, and note their initial values here. Unset:
  /// they have memory.
  std::shared_ptr<LaterValues> later{};
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
  of_own_heads,  ///< the part from its own heads, where ranks share the layer
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
