#pragma once

#include "models/block_options.h"

#include <cairn/nn/block.h>
#include <cairn/nn/relative_bias.h>

#include <memory>
#include <optional>
#include <vector>

namespace cairn::models {

/// What a model says of one token's whereabouts.
struct StackInput {
  at::Tensor mask{}; ///< as attention_mask() gives it
  at::Tensor positions{};
  at::Tensor memory{};
  at::Tensor memory_mask{};
  at::Tensor kept{}; ///< as ModelInput has it
};

/// What each block of a stack takes. `bias`: of relative positions; undefined
/// where there are none.
nn::BlockInput block_input(
    const StackInput& input,
    const at::Tensor& bias,
    Role role);

nn::RelativeBiasOptions relative_bias_options(
    const ModelDescription& description,
    Role role);

struct StackOptions {
  std::int64_t layers = 0;
  Role role = Role::decoder;
};

/// Blocks one after the other, with what belongs to them all: relative
/// positions before and a norm behind. Registers "relative_bias", "layers" and
/// "final_norm" as children of `owner`.
class Stack {
 public:
  Stack(
      torch::nn::Module& owner,
      const nn::LayerContext& context,
      const ModelDescription& description,
      const ModelOptions& options,
      const StackOptions& stack);

  /// The hidden states; the sum of the balance losses, undefined where no block
  /// has one.
  nn::Block::Output forward(at::Tensor x, const StackInput& input) const;

 private:
  nn::Block::Output blocks_from(
      std::size_t first,
      at::Tensor x,
      const nn::BlockInput& input,
      const at::Tensor& kept) const;

  Role role_;
  std::int64_t ranks_per_sequence_;
  std::optional<nn::CheckpointOptions> recompute_;
  std::size_t blocks_at_once_;
  std::vector<std::int64_t> dropping_layers_;
  std::shared_ptr<nn::RelativeBias> relative_bias_;
  std::vector<std::shared_ptr<nn::Block>> blocks_;
  std::shared_ptr<nn::Norm> final_norm_;
};

/// A sum of balance losses with one more; both may be undefined.
at::Tensor with_balance_loss(const at::Tensor& sum, const at::Tensor& one);

/// The context of a stack's blocks: initial weights by its depth.
nn::LayerContext stack_context(nn::LayerContext context, std::int64_t layers);

} // namespace cairn::models
