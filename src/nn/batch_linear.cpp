#include "nn/batch_linear.h"

#include "nn/compute_type.h"
#include "nn/deferral_capsule.h"
#include "nn/product.h"
#include "nn/weight_gradient.h"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <vector>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct BatchLinear : torch::autograd::Function<BatchLinear> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["biased"] = bias.has_value();
    keep_deferral(*context);
    return batch_product(
        x,
        weight.transpose(1, 2),
        bias.value_or(at::Tensor()));
  }

  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& gradient = gradients[0];
    variable_list results(3);
    if (context->needs_input_grad(0)) {
      results[0] = batch_product(gradient, weight);
    }
    if (context->needs_input_grad(1)) {
      const auto later = kept_deferral(*context);
      if (later && DeferredGradients::takes(weight)) {
        later->add({weight}, [gradient, x] {
          return std::vector{batch_product(gradient.transpose(1, 2), x)};
        });
      } else {
        results[1] = batch_weight_gradient(weight, gradient, x);
      }
    }
    if (context->saved_data["biased"].toBool() &&
        context->needs_input_grad(2)) {
      results[2] = gradient.sum(1);
    }
    return results;
  }
};

} // namespace

at::Tensor batch_linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias) {
  return BatchLinear::apply(
      in_compute_type(x),
      in_compute_type(weight),
      bias.defined() ? std::optional(in_compute_type(bias)) : std::nullopt);
}

} // namespace cairn::nn
