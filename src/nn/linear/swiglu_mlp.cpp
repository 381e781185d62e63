#include "nn/linear/swiglu_mlp.h"

#include "nn/linear/compute_type.h"
#include "nn/linear/product.h"
#include "nn/linear/second_derivatives.h"
#include "nn/linear/swiglu.h"
#include "nn/linear/weight_gradient.h"
#include "nn/parallel/deferral_capsule.h"

#include <ATen/ops/_unsafe_view.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SwiGluMlp : torch::autograd::Function<SwiGluMlp> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& gate,
      const at::Tensor& up,
      const at::Tensor& down,
      const std::optional<at::Tensor>& residual) {
    keep_deferral(*context);
    const at::Tensor rows = x.reshape({-1, x.size(-1)});
    const at::Tensor gates = product(rows, gate.t());
    const at::Tensor ups = product(rows, up.t());
    const at::Tensor wide = swiglu_forward(gates, ups);
    context->saved_data["adds"] = residual.has_value();
    context->saved_data["shape"] = x.sizes().vec();
    context->save_for_backward({rows, gate, up, down, gates, ups, wide});
    const at::Tensor result = product_added_to(
        residual ? residual->reshape({-1, residual->size(-1)}) : at::Tensor(),
        wide,
        down.t(),
        {});
    return at::_unsafe_view(result, x.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("Mlp");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& rows = saved[0];
    const at::Tensor& wide = saved[6];
    const auto later = kept_deferral(*context);
    const at::Tensor gradient = outer[0].reshape({-1, outer[0].size(-1)});
    variable_list results(5);
    if (context->saved_data["adds"].toBool()) {
      results[4] = outer[0];
    }
    const auto add_weight =
        [&](int weight, const at::Tensor& of_product, const at::Tensor& x) {
          if (context->needs_input_grad(weight)) {
            results[weight] =
                weight_gradient_or_later(later, saved[weight], of_product, x);
          }
        };
    const auto of = swiglu_backward(
        product(gradient, saved[3]),
        /*gate=*/saved[4],
        /*up=*/saved[5]);
    add_weight(3, gradient, wide);
    if (context->needs_input_grad(0)) {
      const at::Tensor of_rows = product(of.gate, saved[1]);
      product_into(of_rows, of.up, saved[2], Into::add);
      results[0] = of_rows.view(context->saved_data["shape"].toIntVector());
    }
    add_weight(1, of.gate, rows);
    add_weight(2, of.up, rows);
    return results;
  }
};

} // namespace

at::Tensor swiglu_mlp(
    const at::Tensor& x,
    const at::Tensor& residual,
    const SwiGluWeights& weights) {
  return SwiGluMlp::apply(
      in_compute_type(x),
      in_compute_type(weights.gate),
      in_compute_type(weights.up),
      in_compute_type(weights.down),
      in_compute_type_if_defined(residual));
}

} // namespace cairn::nn
