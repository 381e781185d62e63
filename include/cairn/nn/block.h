#pragma once

#include <cairn/nn/attention.h>
#include <cairn/nn/checkpoint.h>
#include <cairn/nn/dropout.h>
#include <cairn/nn/mixture.h>
#include <cairn/nn/mlp.h>
#include <cairn/nn/norm.h>

#include <memory>
#include <optional>

namespace cairn::nn {

struct BlockOptions {
  AttentionOptions attention{};
  MlpOptions mlp{};
  std::optional<MixtureOptions> mixture{}; ///< used instead of the MLP
  NormOptions norm{};
  model::NormPlace norm_place = model::NormPlace::before;
  bool cross_attention = false; ///< only with norms before
  /// True: the MLP reads the block's input, as attention does, and what both
  /// give is added. Only with norms before, and without cross attention.
  bool parallel_residual = false;
  double dropout = 0; ///< of values that are added to the residual stream
  /// Set: the MLP, or the mixture, is computed again in backward.
  std::optional<CheckpointOptions> recompute_mlp{};
  /// True: backward computes outputs of norms again that forward did not keep.
  bool recompute_norms = false;
};

/// A layer of any transformer: attention, perhaps attention to an encoder's
/// output, and an MLP or a mixture of experts, each added to the residual
/// stream.
class Block : public Layer {
 public:
  Block(const LayerContext& context, const BlockOptions& options);

  struct Output {
    at::Tensor hidden;
    at::Tensor balance_loss{}; ///< undefined without a mixture
  };
  /// Maps [batch, sequence, hidden] to the same shape. LayerContext describes a
  /// rank's part of a split sequence.
  Output forward(const at::Tensor& x, const BlockInput& input) const;

 private:
  Output norms_before(const at::Tensor& x, const BlockInput& input) const;
  Output side_by_side(const at::Tensor& x, const BlockInput& input) const;
  Output norms_after(const at::Tensor& x, const BlockInput& input) const;
  Output mlp(const at::Tensor& x) const;
  Output run_mlp(const at::Tensor& x) const;
  /// Gives back the memory of a norm's output until backward comes to the
  /// results of what has read it, where the options ask for it.
  void forget(
      const LayerInput& normal,
      const std::shared_ptr<Norm>& norm,
      const at::Tensor& input,
      const Output& results) const;
  /// A branch as it is added to the residual stream.
  at::Tensor dropped(
      const Dropout& dropout,
      const at::Tensor& branch,
      const BlockInput& input) const;

  BlockOptions options_;
  Dropout attention_dropout_;
  Dropout cross_attention_dropout_;
  Dropout mlp_dropout_;
  std::shared_ptr<Norm> input_norm_;
  std::shared_ptr<SelfAttention> attention_;
  std::shared_ptr<Norm> attention_norm_;
  std::shared_ptr<CrossAttention> cross_attention_;
  std::shared_ptr<Norm> cross_attention_norm_;
  std::shared_ptr<Mlp> mlp_;
  std::shared_ptr<Mixture> mixture_; ///< null if there is an MLP
  std::shared_ptr<Norm> output_norm_;
};

} // namespace cairn::nn
