#pragma once

#include <cairn/models/model_layers.h>
#include <cairn/nn/block.h>
#include <cairn/nn/module_scope.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::models {

/// The values that go from layer to layer: a batch, and its results so far.
struct Stream : ModelInput {
  at::Tensor hidden{};
  at::Tensor balance_loss{}; ///< sum over the blocks with experts so far, [1]
  /// The weights of relative positions, a few numbers for each head: blocks
  /// make their bias from them, and their gradients go back the same way.
  at::Tensor relative{};
  at::Tensor memory{};    ///< T5: the encoder's result
  at::Tensor sentences{}; ///< BERT: pooled state, then the scores
  at::Tensor head_weight{};
  at::Tensor head_bias{};
  /// The input that all blocks of a stack share, made by the first of them on a
  /// stage. It does not travel between stages.
  std::optional<nn::BlockInput> block_input{};
};

using Field = at::Tensor Stream::*;
/// Fields of a stream, in the order in which they travel.
using Fields = std::vector<Field>;

void read(Stream& stream, const Fields& fields, const Tensors& tensors);
Tensors written(const Stream& stream, const Fields& fields);

/// A layer that works on a stream.
struct StreamLayer : model::Layer {
  std::function<std::shared_ptr<torch::nn::Module>()> build{};
  /// Changes the stream, with the module that build() made.
  std::function<void(torch::nn::Module&, Stream&)> forward{};
  /// Blocks: makes Stream::block_input.
  std::function<void(Stream&)> prepare{};
  Fields takes{}; ///< fields that are there before it
  Fields gives{}; ///< fields that are there after it
};

/// Layers one after the other, each with its changes to the stream.
class LayerList {
 public:
  explicit LayerList(Fields first) : carried_(std::move(first)) {}

  /// The fields that the layer makes unnecessary, and those that it adds.
  struct Change {
    Fields drops{};
    Fields adds{};
  };

  /// Adds a layer that calls `forward(module, stream)` with the `Module` that
  /// `layer.build` makes.
  template <typename Module, typename Forward>
  void add(StreamLayer layer, Forward forward, const Change& change = {}) {
    layer.takes = carried_;
    apply(change);
    layer.gives = carried_;
    layer.forward =
        [forward, name = layer.name, drops = change.drops, adds = change.adds](
            torch::nn::Module& module,
            Stream& stream) {
          const nn::ModuleScope scope(name);
          forward(dynamic_cast<Module&>(module), stream);
          drop(stream, drops, adds);
        };
    layers_.push_back(std::move(layer));
  }

  /// True if the last layer gives that field.
  bool carries(Field field) const;
  const std::vector<StreamLayer>& layers() const { return layers_; }

 private:
  void apply(const Change& change);
  static void drop(Stream& stream, const Fields& drops, const Fields& adds);

  Fields carried_;
  std::vector<StreamLayer> layers_;
};

/// The layer for a stage of a pipeline, whose streams are lists of tensors.
ModelLayer pipeline_layer(StreamLayer layer);

} // namespace cairn::models
