#include <cairn/nn/mlp.h>

#include "nn/fp8/fp8_gelu_mlp.h"
#include "nn/fp8/fp8_matrix.h"
#include "nn/fp8/fp8_swiglu_mlp.h"
#include "nn/linear/gelu.h"
#include "nn/linear/gelu_mlp.h"
#include "nn/linear/swiglu.h"
#include "nn/linear/swiglu_mlp.h"

#include <ATen/TensorOperators.h>
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
    case model::ActivationKind::squared_relu:
      return at::relu(x).square();
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
    : group_(context.group), activation_(options.activation) {
  const LinearOptions widen{
      options.hidden,
      options.ffn,
      options.bias,
      options.overlap_tokens};
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
          LinearOptions{
              options.ffn,
              options.hidden,
              options.bias,
              options.overlap_tokens}));
}

at::Tensor Mlp::forward(const LayerInput& x) const {
  if (auto result = in_one({}, x)) {
    return *std::move(result);
  }
  return in_parts(x);
}

at::Tensor Mlp::forward_added_to(
    const at::Tensor& residual,
    const LayerInput& x) const {
  if (auto sum = in_one(residual, x)) {
    return *std::move(sum);
  }
  return residual + in_parts(x);
}

std::optional<at::Tensor> Mlp::in_one(
    const at::Tensor& residual,
    const LayerInput& given) const {
  const at::Tensor& x = given.x;
  const auto& fp8 = up_->fp8();
  if (group_.size() > 1) {
    return std::nullopt;
  }
  if (fp8 &&
      !fp8_takes(x.numel() / x.size(-1), x.size(-1), up_->weight().size(0))) {
    return std::nullopt;
  }
  if (gate_) {
    if (activation_ != model::ActivationKind::silu || gate_->bias().defined() ||
        down_->bias().defined()) {
      return std::nullopt;
    }
    const SwiGluWeights weights{
        gate_->weight(),
        up_->weight(),
        down_->weight()};
    return fp8 ? fp8_swiglu_mlp(
                     given,
                     residual,
                     weights,
                     {*gate_->fp8(), *fp8, *down_->fp8()})
               : swiglu_mlp(x, residual, weights);
  }
  const bool exact = activation_ == model::ActivationKind::gelu;
  if (!exact && activation_ != model::ActivationKind::gelu_tanh) {
    return std::nullopt;
  }
  const GeluKind kind = exact ? GeluKind::exact : GeluKind::tanh;
  const LinearParameters up{up_->weight(), up_->bias()};
  const LinearParameters down{down_->weight(), down_->bias()};
  if (fp8) {
    return fp8_gelu_mlp(given, residual, up, down, kind, *fp8, *down_->fp8());
  }
  return has_own_gelu(x) ? std::nullopt
                         : std::optional(gelu_mlp(x, residual, up, down, kind));
}

at::Tensor Mlp::in_parts(const LayerInput& x) const {
  if (!gate_) {
    return down_->forward(activate(up_->forward(x), activation_));
  }
  if (up_->fp8()) {
    return down_->forward(
        activate_gated(gate_->forward(x), up_->forward(x), activation_));
  }
  const auto wide = column_linear(
      x.x,
      {gate_->weight(), up_->weight()},
      {gate_->bias(), up_->bias()},
      group_,
      up_->tokens());
  return down_->forward(activate_gated(wide[0], wide[1], activation_));
}

} // namespace cairn::nn
