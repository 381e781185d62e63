#include <cairn/nn/norm.h>

#include "nn/fp8/fp8_history.h"
#include "nn/linear/normalized_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <cairn/nn/later_values.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Gives x + branch, or x alone, with its norm, so that the gradients that
/// reach it both ways meet here, and not in an addition of their own. With a
/// unit, the norm is rounded to fp8 and given by `rounded`; the second result
/// is then its place in autograd's graph.
struct PassAndNormalize : torch::autograd::Function<PassAndNormalize> {
  static variable_list forward(
      AutogradContext* context,
      const at::Tensor& x,
      const std::optional<at::Tensor>& branch,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias,
      double epsilon,
      const Fp8Scale& scale,
      at::Tensor* rounded) {
    const NormalizedRows rows = normalize_rows(
        x,
        branch.value_or(at::Tensor()),
        {weight, bias.value_or(at::Tensor()), epsilon},
        scale);
    context->save_for_backward(
        {rows.sum,
         rows.mean,
         rows.inverse,
         weight,
         bias.value_or(at::Tensor())});
    context->saved_data["adds"] = branch.has_value();
    context->set_materialize_grads(false);
    if (rows.rounded.defined()) {
      *rounded = rows.rounded;
      // Gradients have the type of x, which fp8 tensors would turn to theirs.
      return {rows.sum, without_memory(x.sizes(), x.options())};
    }
    return {rows.sum, rows.normal};
  }

  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    const bool adds = context->saved_data["adds"].toBool();
    NormGradients found{.x = gradients[0]};
    if (gradients[1].defined()) {
      const variable_list saved = context->get_saved_variables();
      found = normalize_rows_backward(
          gradients[1],
          gradients[0],
          {.sum = saved[0],
           .normal = {},
           .mean = saved[1],
           .inverse = saved[2]},
          {.weight = saved[3], .bias = saved[4]});
    }
    return {
        found.x,
        adds ? found.x : at::Tensor(),
        found.weight,
        found.bias,
        {},
        {},
        {}};
  }
};

std::optional<at::Tensor> if_given(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

} // namespace

Norm::Norm(
    const LayerContext& context,
    std::int64_t size,
    const NormOptions& options,
    Gradient gradient)
    : options_(options) {
  const SlicedShape shape = SlicedShape::all_of({size});
  weight_ =
      add_parameter(context, "weight", shape, model::InitialLaw::one, gradient);
  if (options.kind == model::NormKind::layer_norm) {
    bias_ = add_parameter(
        context,
        "bias",
        shape,
        model::InitialLaw::zero,
        gradient);
  }
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  return pass(x, {}).second;
}

at::Tensor Norm::by_libtorch(const at::Tensor& x) const {
  return options_.kind == model::NormKind::layer_norm
      ? at::layer_norm(x, weight_.sizes(), weight_, bias_, options_.epsilon)
      : at::rms_norm(x, weight_.sizes(), weight_, options_.epsilon);
}

bool Norm::has_own_pass(const at::Tensor& x, const at::Tensor& branch) const {
  const bool alike = !branch.defined() ||
      (branch.scalar_type() == x.scalar_type() && branch.sizes() == x.sizes());
  // Autocast computes norms in float, which is left to libtorch.
  return alike && normalizes_rows(x, {weight_, bias_}) &&
      !at::autocast::is_autocast_enabled(x.device().type());
}

std::pair<at::Tensor, at::Tensor> Norm::pass(
    const at::Tensor& x,
    const at::Tensor& branch) const {
  if (!has_own_pass(x, branch)) {
    at::Tensor sum = branch.defined() ? x + branch : x;
    at::Tensor normal = by_libtorch(sum);
    return {std::move(sum), std::move(normal)};
  }
  variable_list both = PassAndNormalize::apply(
      x,
      if_given(branch),
      weight_,
      if_given(bias_),
      options_.epsilon,
      Fp8Scale(),
      nullptr);
  return {std::move(both[0]), std::move(both[1])};
}

std::pair<at::Tensor, LayerInput> Norm::pass_to(
    const ColumnLinear& reader,
    const at::Tensor& x,
    const at::Tensor& branch) const {
  if (!reader.takes_rounded(x) || !has_own_pass(x, branch)) {
    return pass(x, branch);
  }
  const Fp8Scale scale = Fp8Scales::of(reader.fp8()).input;
  at::Tensor rounded;
  variable_list both = PassAndNormalize::apply(
      x,
      if_given(branch),
      weight_,
      if_given(bias_),
      options_.epsilon,
      scale,
      &rounded);
  return {
      std::move(both[0]),
      LayerInput(std::move(both[1]), std::move(rounded), scale.unit)};
}

} // namespace cairn::nn
