#pragma once

#include <cairn/nn/layer.h>
#include <cairn/nn/mlp.h>
#include <cairn/nn/row_groups.h>

#include <cstdint>

namespace cairn::nn {

/// Many MLPs of one shape. Their weights are stacked, [experts, out, in], so
/// that all of them are one product of batches, or of groups of rows. The ranks
/// of the expert group have some experts each and send each other the tokens
/// for these. The ranks of a tensor parallel group have a part of each expert.
///
/// The parameters are called "up.weight", "up.bias" and so on, as in an Mlp.
class Experts : public Layer {
 public:
  Experts(
      const LayerContext& context,
      const MlpOptions& options,
      std::int64_t experts);
  /// Maps [experts, slots, hidden] to the same shape. The number of slots is
  /// the same on every rank of the expert group.
  at::Tensor forward(const at::Tensor& x) const;
  /// Maps rows, [rows, hidden], to the same shape; each expert has a group of
  /// them, of any size. All experts are on this rank.
  at::Tensor forward(const at::Tensor& rows, const RowGroups& groups) const;

 private:
  /// The weights of one linear layer of all experts.
  class Product : public Layer {
   public:
    enum class Cut { out, in }; ///< dimension that tensor parallel ranks cut
    Product(
        const LayerContext& context,
        std::int64_t experts,
        const LinearOptions& options,
        Cut cut);
    /// Maps [experts here, tokens, in] to [experts here, tokens, out].
    at::Tensor forward(const at::Tensor& x) const;
    /// Maps groups of rows, [rows, in] to [rows, out].
    at::Tensor forward(const at::Tensor& rows, const RowGroups& groups) const;
    const at::Tensor& weight() const { return weight_; }
    const at::Tensor& bias() const { return bias_; }

   private:
    distributed::ProcessGroup summed_over_; ///< with Cut::in
    at::Tensor weight_;
    at::Tensor bias_;
  };

  distributed::ProcessGroup group_;
  distributed::ProcessGroup expert_group_;
  model::ActivationKind activation_;
  std::shared_ptr<Product> gate_; ///< null: not gated
  std::shared_ptr<Product> up_;
  std::shared_ptr<Product> down_;
};

} // namespace cairn::nn
