#include <cairn/nn/mlp.h>

#include "nn/fp8/fp8_gelu_mlp.h"
#include "nn/linear/gelu.h"
#include "nn/linear/gelu_mlp.h"
#include "nn/linear/swiglu.h"
#include "nn/linear/swiglu_mlp.h"

#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <cairn/base/error.h>
#include <cairn/nn/tensor_parallel.h>

namespace cairn::nn {

at::Tensor activate(const at::Tensor& x, model::ActivationKind activation) {
  switch (activation) {
    case model::ActivationKind::gelu:
      return gelu(x, GeluKind::exact);
    case model::ActivationKind::gelu_tanh:
      return gelu(x, GeluKind::tanh);
    case model::ActivationKind::relu:
      return at::relu(x);
    case model::ActivationKind::silu:
      return at::silu(x);
  }
  throw InternalError({.what = "an unknown activation"});
}

at::Tensor activate_gated(
    const at::Tensor& gate,
    const at::Tensor& up,
    model::ActivationKind activation) {
  return activation == model::ActivationKind::silu
      ? swiglu(gate, up)
      : activate(gate, activation) * up;
}

Mlp::Mlp(const LayerContext& context, const MlpOptions& options)
    : group_(context.group),
      split_tokens_(context.splits_tokens()),
      activation_(options.activation) {
  const LinearOptions widen{options.hidden, options.ffn, options.bias};
  if (options.gated) {
    gate_ = register_module(
        "gate",
        std::make_shared<ColumnLinear>(context.in("gate"), widen));
  }
  up_ = register_module(
      "up",
      std::make_shared<ColumnLinear>(context.in("up"), widen));
  down_ = register_module(
      "down",
      std::make_shared<RowLinear>(
          context.in("down"),
          LinearOptions{options.ffn, options.hidden, options.bias}));
}

at::Tensor Mlp::forward(const at::Tensor& x) const {
  return gate_ ? gated(x) : plain(x);
}

at::Tensor Mlp::gated(const at::Tensor& x) const {
  if (up_->fp8()) {
    return down_->forward(
        activate_gated(gate_->forward(x), up_->forward(x), activation_));
  }
  if (group_.size() == 1 && activation_ == model::ActivationKind::silu &&
      !gate_->bias().defined() && !down_->bias().defined()) {
    return swiglu_mlp(x, {gate_->weight(), up_->weight(), down_->weight()});
  }
  const auto wide = column_linear(
      x,
      {gate_->weight(), up_->weight()},
      {gate_->bias(), up_->bias()},
      group_,
      split_tokens_);
  return down_->forward(activate_gated(wide[0], wide[1], activation_));
}

at::Tensor Mlp::plain(const at::Tensor& x) const {
  const auto fp8 = up_->fp8();
  const bool exact = activation_ == model::ActivationKind::gelu;
  const bool is_gelu = exact || activation_ == model::ActivationKind::gelu_tanh;
  if (is_gelu && group_.size() == 1) {
    const GeluKind kind = exact ? GeluKind::exact : GeluKind::tanh;
    const LinearParameters up{up_->weight(), up_->bias()};
    const LinearParameters down{down_->weight(), down_->bias()};
    if (fp8 && fp8_gelu_mlp_takes(x, up.weight)) {
      return fp8_gelu_mlp(x, up, down, kind, *fp8);
    }
    if (!fp8 && !has_own_gelu(x)) {
      return gelu_mlp(x, up, down, kind);
    }
  }
  return down_->forward(activate(up_->forward(x), activation_));
}

} // namespace cairn::nn
