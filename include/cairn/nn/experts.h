#pragma once

#include <cairn/nn/layer.h>
#include <cairn/nn/mlp.h>

#include <cstdint>

namespace cairn::nn {

/// Many MLPs of one shape. Their weights are stacked, [experts, out, in], so
/// that all of them are one product of batches of matrices. The expert group
/// shares the experts out; its ranks send each other what is for theirs. A
/// tensor parallel group has a part of each.
///
/// Parameters are "up.weight", "up.bias" and so on, as an Mlp's.
class Experts : public Layer {
 public:
  Experts(
      const LayerContext& context,
      const MlpOptions& options,
      std::int64_t experts);
  /// [experts, slots, hidden] to the same: slots of the same number on every
  /// rank of the expert group.
  at::Tensor forward(const at::Tensor& x) const;

 private:
  /// One of the products of all experts.
  class Product : public Layer {
   public:
    enum class Cut { out, in }; ///< what tensor parallel ranks have a part of
    Product(
        const LayerContext& context,
        std::int64_t experts,
        const LinearOptions& options,
        Cut cut);
    /// [experts here, tokens, in] to [experts here, tokens, out]
    at::Tensor forward(const at::Tensor& x) const;

   private:
    distributed::ProcessGroup summed_over_; ///< with Cut::in
    at::Tensor weight_;
    at::Tensor bias_;
  };

  distributed::ProcessGroup group_;
  distributed::ProcessGroup expert_group_;
  Activation activation_;
  std::shared_ptr<Product> gate_; ///< null: not gated
  std::shared_ptr<Product> up_;
  std::shared_ptr<Product> down_;
};

} // namespace cairn::nn
