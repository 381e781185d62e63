#pragma once

#include <cairn/models/model_layers.h>

#include <utility>

namespace cairn::models {

/// What goes from layer to layer: a batch, and what has been made of it.
struct Stream : ModelInput {
  at::Tensor hidden{};
  at::Tensor balance_loss{}; ///< of the blocks with experts so far, [1]
  /// The weights of relative positions, a few numbers for each head: every
  /// block makes its bias of them, and their gradients go back the same way.
  at::Tensor relative{};
  at::Tensor memory{};    ///< T5: what the encoder has made of its text
  at::Tensor sentences{}; ///< BERT: of the binary head
  at::Tensor head_weight{};
  at::Tensor head_bias{};
};

using Field = at::Tensor Stream::*;
/// Which of them there are, in the order in which they travel.
using Fields = std::vector<Field>;

void read(Stream& stream, const Fields& fields, const Tensors& tensors);
Tensors written(const Stream& stream, const Fields& fields);

/// Layers one after the other, each with what it changes in the stream.
class LayerList {
 public:
  explicit LayerList(Fields first) : carried_(std::move(first)) {}

  /// What is no longer needed afterwards, and what is there then.
  struct Change {
    Fields drops{};
    Fields adds{};
  };

  /// `forward(module, stream)` of what `layer.build` makes.
  template <typename Module, typename Forward>
  void add(ModelLayer layer, Forward forward, const Change& change = {}) {
    const Fields before = carried_;
    apply(change);
    layer.forward = [before,
                     after = carried_,
                     forward](torch::nn::Module& module, const Tensors& given) {
      Stream stream;
      read(stream, before, given);
      forward(dynamic_cast<Module&>(module), stream);
      return written(stream, after);
    };
    layers_.push_back(std::move(layer));
  }

  /// Whether the last layer gives that.
  bool carries(Field field) const;
  /// What the last layer gives.
  const Fields& carried() const { return carried_; }
  std::vector<ModelLayer> take() { return std::move(layers_); }

 private:
  void apply(const Change& change);

  Fields carried_;
  std::vector<ModelLayer> layers_;
};

} // namespace cairn::models
