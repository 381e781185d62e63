#pragma once

#include "models/block_options.h"
#include "models/layer_list.h"

#include <cairn/model/parameters.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::models {

/// Adds the layers that models are made of to a list, in the order of
/// model::layers_of().
class LayerBuilder {
 public:
  LayerBuilder(
      const ModelDescription& description,
      const ModelOptions& options,
      Fields inputs);

  /// Adds the word embedding, and the layer between it and the first block.
  void add_embedding(Field tokens);

  struct Stack {
    std::int64_t layers = 0;
    Role role = Role::decoder;
    std::string name{}; ///< prefix of its parameters' names, such as "encoder"
    Field result = &Stream::hidden;
    Fields drops{}; ///< fields that nobody needs after the blocks
  };
  /// Adds blocks, with relative positions before them and a norm behind.
  void add_stack(const Stack& stack);

  /// Adds BERT's heads, before the words' scores.
  void add_masked_heads();

  /// Adds layers that give the head's parameters, so that the loss can choose
  /// how it computes the scores. A tied head is the words' layer once more.
  void add_head();

  const std::vector<StreamLayer>& layers() const { return list_.layers(); }

 private:
  /// The next layer of the model, which has this name.
  StreamLayer next(const std::string& name);
  StreamLayer next_words();
  void add_relative_positions(
      const nn::LayerContext& context,
      const Stack& stack);
  void add_blocks(const nn::LayerContext& context, const Stack& stack);
  void add_final_norm(const nn::LayerContext& context, const Stack& stack);

  ModelDescription d_;
  std::vector<model::Layer> layers_;
  nn::LayerContext context_;
  ModelOptions options_;
  LayerList list_;
};

} // namespace cairn::models
