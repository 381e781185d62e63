#include "nn/linear/gelu_mlp.h"

#include "nn/linear/column_sums.h"
#include "nn/linear/compute_type.h"
#include "nn/linear/fused_or_apart.h"
#include "nn/linear/gpu_product.h"
#include "nn/linear/product.h"
#include "nn/linear/second_derivatives.h"
#include "nn/linear/weight_gradient.h"
#include "nn/parallel/deferral_capsule.h"

#include <ATen/ops/_unsafe_view.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>
#include <vector>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor rows_of(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

GeluProduct product_gelu(
    const at::Tensor& rows,
    const at::Tensor& weight,
    const at::Tensor& bias,
    GeluKind kind) {
  const auto apart = [&]() -> GeluProduct {
    const at::Tensor sums = product(rows, weight.t(), bias);
    return {sums, gelu(sums, kind)};
  };
  const FusedOrApart choice("GELU of a product", rows, weight.t());
  if (kind == GeluKind::exact || choice.apart_is_faster()) {
    return apart();
  }
  const auto fused = [&] { return gpu_product_gelu(rows, weight.t(), bias); };
  auto found = fused();
  if (!found) {
    return apart();
  }
  choice.try_both([&] { fused(); }, [&] { apart(); });
  return *std::move(found);
}

/// Gradients of gelu(sums) x weight transposed. `bias` was added to the sums;
/// it is undefined where no gradient is wanted.
GeluGradients product_gelu_backward(
    const at::Tensor& gradient,
    const at::Tensor& weight,
    const at::Tensor& sums,
    const at::Tensor& bias,
    GeluKind kind) {
  const auto apart = [&](const at::Tensor& addend) {
    return gelu_backward(product(gradient, weight), sums, kind, addend);
  };
  const FusedOrApart choice("gradient of GELU", gradient, weight);
  if (kind == GeluKind::exact || choice.apart_is_faster()) {
    return apart(bias);
  }
  const auto fused = [&] {
    return gpu_product_gelu_gradient(gradient, weight, sums);
  };
  auto found = fused();
  if (!found) {
    return apart(bias);
  }
  if (!bias.defined()) {
    return {*std::move(found), {}};
  }
  // A bias that is detached has no place where its gradient would be added.
  choice.try_both(
      [&] { column_sums(*fused()); },
      [&] { apart(bias.detach()); });
  at::Tensor of_bias = bias_gradient(bias, *found);
  return {*std::move(found), std::move(of_bias)};
}

struct GeluMlp : torch::autograd::Function<GeluMlp> {
  /// Positions of forward()'s inputs, and of their gradients.
  enum Input { input, up_weight, down_weight, up_bias, down_bias, residual };

  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& up,
      const at::Tensor& down,
      const std::optional<at::Tensor>& up_bias_if_any,
      const std::optional<at::Tensor>& down_bias_if_any,
      const std::optional<at::Tensor>& residual_if_any,
      GeluKind kind) {
    keep_deferral(*context);
    const at::Tensor up_addend = up_bias_if_any.value_or(at::Tensor());
    const at::Tensor down_addend = down_bias_if_any.value_or(at::Tensor());
    const GeluProduct wide = product_gelu(rows_of(x), up, up_addend, kind);
    const at::Tensor result = product_added_to(
        residual_if_any ? rows_of(*residual_if_any) : at::Tensor(),
        wide.result,
        down.t(),
        down_addend);
    context->saved_data["exact"] = kind == GeluKind::exact;
    context->saved_data["adds"] = residual_if_any.has_value();
    context->saved_data["shape"] = x.sizes().vec();
    // Inputs of a product are kept for its weight's gradient alone.
    context->save_for_backward(
        {up.requires_grad() ? x : at::Tensor(),
         up,
         down,
         up_addend,
         down_addend,
         wide.sums,
         down.requires_grad() ? wide.result : at::Tensor()});
    if (x.dim() == 2) {
      return result; // not a view: it may be written into
    }
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = down.size(0);
    return at::_unsafe_view(result, shape); // for autograd not a view either
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("Mlp");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& sums = saved[5];
    const at::Tensor& activated = saved[6];
    const auto wanted = [&](Input bias) {
      // A bias that is missing has no number among autograd's inputs.
      const int missing = bias == down_bias && !saved[up_bias].defined();
      return saved[bias].defined() && context->needs_input_grad(bias - missing)
          ? saved[bias]
          : at::Tensor();
    };
    const auto later = kept_deferral(*context);
    const at::Tensor gradient = rows_of(outer[0]);
    variable_list results(7);
    if (context->saved_data["adds"].toBool()) {
      results[residual] = outer[0];
    }
    GeluGradients wide = product_gelu_backward(
        gradient,
        saved[down_weight],
        sums,
        wanted(up_bias),
        context->saved_data["exact"].toBool() ? GeluKind::exact
                                              : GeluKind::tanh);
    results[up_bias] = std::move(wide.bias);
    if (wanted(down_bias).defined()) {
      results[down_bias] = bias_gradient(saved[down_bias], gradient);
    }
    if (context->needs_input_grad(down_weight)) {
      results[down_weight] = weight_gradient_or_later(
          later,
          saved[down_weight],
          gradient,
          activated);
    }
    if (context->needs_input_grad(input)) {
      results[input] = product(wide.x, saved[up_weight])
                           .view(context->saved_data["shape"].toIntVector());
    }
    if (context->needs_input_grad(up_weight)) {
      results[up_weight] = weight_gradient_or_later(
          later,
          saved[up_weight],
          wide.x,
          rows_of(saved[input]));
    }
    return results;
  }
};

} // namespace

at::Tensor gelu_mlp(
    const at::Tensor& x,
    const at::Tensor& residual,
    const LinearParameters& up,
    const LinearParameters& down,
    GeluKind kind) {
  return GeluMlp::apply(
      in_compute_type(x),
      in_compute_type(up.weight),
      in_compute_type(down.weight),
      in_compute_type_if_defined(up.bias),
      in_compute_type_if_defined(down.bias),
      in_compute_type_if_defined(residual),
      kind);
}

} // namespace cairn::nn
