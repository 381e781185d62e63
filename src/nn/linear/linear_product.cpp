#include "nn/linear/linear_product.h"

#include "nn/linear/column_sums.h"
#include "nn/linear/compute_type.h"
#include "nn/linear/product.h"
#include "nn/linear/weight_gradient.h"
#include "nn/parallel/deferral_capsule.h"

#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <vector>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// True when there is one weight for each matrix of a batch.
bool is_batch(const at::Tensor& weight) {
  return weight.dim() == 3;
}

/// The rows of `x` as one weight multiplies them.
at::Tensor rows_for(const at::Tensor& weight, const at::Tensor& x) {
  return is_batch(weight) ? x : x.reshape({-1, x.size(-1)});
}

struct LinearProduct : torch::autograd::Function<LinearProduct> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias) {
    keep_deferral(*context);
    const at::Tensor result = product(
        rows_for(weight, x),
        weight.transpose(-2, -1),
        bias.value_or(at::Tensor()));
    context->saved_data["shape"] = x.sizes().vec();
    context->save_for_backward(
        {weight.requires_grad() ? x : at::Tensor(), // for its gradient alone
         weight,
         bias.value_or(at::Tensor())});
    if (is_batch(weight) || x.dim() == 2) {
      return result; // not a view: it may be written into
    }
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return at::_unsafe_view(result, shape); // for autograd not a view either
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& weight = saved[1];
    const at::Tensor& bias = saved[2];
    const at::Tensor gradient = rows_for(weight, outer[0]);
    variable_list results(3);
    if (bias.defined() && context->needs_input_grad(2)) {
      results[2] =
          is_batch(weight) ? gradient.sum(1) : bias_gradient(bias, gradient);
    }
    if (context->needs_input_grad(0)) {
      results[0] = product(gradient, weight)
                       .view(context->saved_data["shape"].toIntVector());
    }
    if (context->needs_input_grad(1)) {
      results[1] = weight_gradient_or_later(
          kept_deferral(*context),
          weight,
          gradient,
          rows_for(weight, saved[0]));
    }
    return results;
  }
};

} // namespace

at::Tensor linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias) {
  return LinearProduct::apply(
      in_compute_type(x),
      in_compute_type(weight),
      in_compute_type_if_defined(bias));
}

} // namespace cairn::nn
