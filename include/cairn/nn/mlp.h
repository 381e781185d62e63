#pragma once

#include <cairn/model/description.h>
#include <cairn/nn/linear.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace cairn::nn {

at::Tensor activate(const at::Tensor& x, model::ActivationKind activation);

/// Computes activation(gate) * up, as in SwiGLU.
at::Tensor activate_gated(
    const at::Tensor& gate,
    const at::Tensor& up,
    model::ActivationKind activation);

struct MlpOptions {
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  model::ActivationKind activation = model::ActivationKind::gelu;
  bool gated = false;
  bool bias = true;
  bool overlap_tokens = false; ///< as in LinearOptions
};

class Mlp : public Layer {
 public:
  Mlp(const LayerContext& context, const MlpOptions& options);
  at::Tensor forward(const LayerInput& x) const;
  /// Computes residual + forward(x); a GPU adds it within the last product.
  at::Tensor forward_added_to(const at::Tensor& residual, const LayerInput& x)
      const;
  /// The layer that reads the input first.
  const ColumnLinear& first_layer() const { return gate_ ? *gate_ : *up_; }

 private:
  /// Computes residual + forward(x) as one node of autograd; forward(x) alone
  /// if `residual` is undefined. Nothing where there is no such node.
  std::optional<at::Tensor> in_one(
      const at::Tensor& residual,
      const LayerInput& x) const;
  at::Tensor in_parts(const LayerInput& x) const;

  distributed::ProcessGroup group_;
  model::ActivationKind activation_;
  std::shared_ptr<ColumnLinear> gate_; ///< null: not gated
  std::shared_ptr<ColumnLinear> up_;
  std::shared_ptr<RowLinear> down_;
};

} // namespace cairn::nn
