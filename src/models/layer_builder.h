#pragma once

#include "models/layer_list.h"
#include "models/stack.h"

#include <string>

namespace cairn::models {

/// Adds the layers that models are made of to a list.
class LayerBuilder {
 public:
  LayerBuilder(
      const ModelDescription& description,
      const ModelOptions& options,
      Fields inputs);

  /// Words, and what comes between them and the first block.
  void add_embedding(Field tokens);

  struct Place {
    std::string name{}; ///< before its parameters' names, such as "encoder"
    Field result = &Stream::hidden;
    Fields drops{}; ///< what nobody needs after the blocks
  };
  void add_stack(const StackOptions& stack, const Place& place);

  /// BERT's, before the words' scores.
  void add_masked_heads();

  /// Gives the head's parameters, so that the loss can do with the scores what
  /// it wants. A tied head is the words' layer once more.
  void add_head();

  /// What the last layer gives.
  const Fields& carried() const { return list_.carried(); }
  std::vector<ModelLayer> take() { return list_.take(); }

 private:
  ModelLayer words(const char* type) const;
  void add_relative_positions(
      const nn::LayerContext& context,
      const std::string& name,
      Role role);
  void add_blocks(
      const nn::LayerContext& context,
      const StackOptions& stack,
      const Place& place);
  void add_final_norm(const nn::LayerContext& context, const Place& place);

  ModelDescription d_;
  nn::LayerContext context_;
  LayerList list_;
};

} // namespace cairn::models
