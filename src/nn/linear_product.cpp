#include "nn/linear_product.h"

#include "nn/column_sums.h"
#include "nn/compute_type.h"
#include "nn/deferral_capsule.h"
#include "nn/product.h"
#include "nn/weight_gradient.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <vector>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor rows_of(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

struct LinearProduct : torch::autograd::Function<LinearProduct> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["biased"] = bias.has_value();
    keep_deferral(*context);
    const at::Tensor rows =
        product(rows_of(x), weight.t(), bias.value_or(at::Tensor()));
    if (x.dim() == 2) {
      return rows; // not a view: it may be written into
    }
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return rows.view(shape);
  }

  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor gradient = rows_of(gradients[0]);
    variable_list results(3);
    if (context->needs_input_grad(0)) {
      results[0] = product(gradient, weight).view(x.sizes());
    }
    if (context->needs_input_grad(1)) {
      const auto later = kept_deferral(*context);
      if (later && DeferredGradients::takes(weight)) {
        later->add({weight}, [gradient, rows = rows_of(x)] {
          return std::vector{product(gradient.t(), rows)};
        });
      } else {
        results[1] = weight_gradient(weight, gradient, rows_of(x));
      }
    }
    if (context->saved_data["biased"].toBool() &&
        context->needs_input_grad(2)) {
      results[2] = column_sums(gradient);
    }
    return results;
  }
};

} // namespace

at::Tensor linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias) {
  const auto given = bias.defined() ? std::optional(bias) : std::nullopt;
  if (DeferWeightGradients::current()) {
    return LinearProduct::apply(
        in_compute_type(x),
        in_compute_type(weight),
        given ? std::optional(in_compute_type(bias)) : std::nullopt);
  }
  const bool ours = has_own_product(x) && has_own_product(weight) &&
      !at::autocast::is_autocast_enabled(at::kCPU);
  return ours ? LinearProduct::apply(x, weight, given)
              : at::linear(x, weight, given);
}

} // namespace cairn::nn
