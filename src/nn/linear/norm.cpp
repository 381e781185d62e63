#include <cairn/nn/norm.h>

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/rms_norm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Gives x back with its norm, so that the gradients that reach x both ways
/// meet here, and not in an addition of their own.
struct PassAndNormalize : torch::autograd::Function<PassAndNormalize> {
  static variable_list forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const at::Tensor& bias,
      double epsilon) {
    auto [normal, mean, inverse] =
        at::native_layer_norm(x, weight.sizes(), weight, bias, epsilon);
    context->save_for_backward({x, weight, bias, mean, inverse});
    context->set_materialize_grads(false);
    return {x, normal};
  }

  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    if (!gradients[1].defined()) { // nobody used the norm
      return {gradients[0], {}, {}, {}};
    }
    const variable_list saved = context->get_saved_variables();
    auto [of_x, of_weight, of_bias] = at::native_layer_norm_backward(
        gradients[1],
        saved[0],
        saved[1].sizes(),
        saved[3],
        saved[4],
        saved[1],
        saved[2],
        {context->needs_input_grad(0),
         context->needs_input_grad(1),
         context->needs_input_grad(2)});
    if (of_x.defined() && gradients[0].defined()) {
      of_x.add_(gradients[0]);
    }
    return {of_x, of_weight, of_bias, {}};
  }
};

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
  return options_.kind == model::NormKind::layer_norm
      ? at::layer_norm(x, weight_.sizes(), weight_, bias_, options_.epsilon)
      : at::rms_norm(x, weight_.sizes(), weight_, options_.epsilon);
}

std::pair<at::Tensor, at::Tensor> Norm::pass(const at::Tensor& x) const {
  // Autocast computes norms in float, which forward() leaves to libtorch.
  if (options_.kind != model::NormKind::layer_norm ||
      at::autocast::is_autocast_enabled(x.device().type())) {
    return {x, forward(x)};
  }
  variable_list both =
      PassAndNormalize::apply(x, weight_, bias_, options_.epsilon);
  return {std::move(both[0]), std::move(both[1])};
}

std::pair<at::Tensor, at::Tensor> add_and_normalize(
    const at::Tensor& x,
    const at::Tensor& branch,
    const Norm& norm) {
  return norm.pass(x + branch);
}

} // namespace cairn::nn
