#include "nn/fp8/fp8_gelu_mlp.h"

#include "nn/fp8/fp8_history.h"
#include "nn/fp8/fp8_matrix.h"
#include "nn/fp8/fp8_product.h"
#include "nn/linear/compute_type.h"
#include "nn/linear/second_derivatives.h"
#include "nn/parallel/deferral_capsule.h"

#include <ATen/ops/_unsafe_view.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Fp8GeluMlp : torch::autograd::Function<Fp8GeluMlp> {
  /// Positions of forward()'s inputs, and of their gradients.
  enum Input { input, up_weight, down_weight, up_bias, down_bias, residual };
  /// Positions of what is kept, after the parameters.
  enum Kept {
    up_unit = 5,
    up_columns,
    down_unit,
    down_columns,
    x_rows,
    x_columns,
    x_unit,
    sums,
    wide_columns,
    wide_unit,
    sums_gradient_unit,
    sums_gradient_largest,
    gradient_unit,
    gradient_largest
  };

  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& up,
      const at::Tensor& down,
      const std::optional<at::Tensor>& up_bias_if_any,
      const std::optional<at::Tensor>& down_bias_if_any,
      const std::optional<at::Tensor>& residual_if_any,
      GeluKind kind,
      const Fp8Factor& rounded,
      Fp8Format format,
      const Fp8Scales& up_scales,
      const Fp8Scales& down_scales) {
    keep_deferral(*context);
    const at::Tensor up_addend = up_bias_if_any.value_or(at::Tensor());
    const at::Tensor down_addend = down_bias_if_any.value_or(at::Tensor());
    const Fp8Result result{x.scalar_type()};
    const Fp8Matrix given = input_to_fp8(x, rounded, up, up_scales.input);
    const Fp8Matrix ups = up_scales.weight_to_fp8(up);
    const at::Tensor before =
        fp8_product(given.by_rows(), ups.by_rows(), {up_addend}, result);
    const Fp8Matrix wide = to_fp8(
        {before, kind},
        fp8_of_values,
        order_of_input(down),
        down_scales.input);
    const Fp8Matrix downs = down_scales.weight_to_fp8(down);
    const at::Tensor answer = fp8_product(
        wide.by_rows(),
        downs.by_rows(),
        {.bias = down_addend,
         .matrix =
             residual_if_any ? dense_rows(*residual_if_any) : at::Tensor()},
        result);
    context->saved_data["adds"] = residual_if_any.has_value();
    context->saved_data["exact"] = kind == GeluKind::exact;
    context->saved_data["hybrid"] = format == Fp8Format::hybrid;
    context->saved_data["shape"] = x.sizes().vec();
    context->save_for_backward(
        {{},
         up,
         down,
         up_addend,
         down_addend,
         ups.unit,
         ups.columns,
         downs.unit,
         downs.columns,
         rows_to_keep(given, up),
         given.columns,
         given.unit,
         before,
         wide.columns,
         wide.unit,
         up_scales.gradient.unit,
         up_scales.gradient.largest,
         down_scales.gradient.unit,
         down_scales.gradient.largest});
    return at::_unsafe_view(answer, x.sizes()); // for autograd not a view
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("Mlp");
    const variable_list saved = context->get_saved_variables();
    const auto wanted = [&](Input bias) {
      // A bias that is missing has no number among autograd's inputs.
      const int missing = bias == down_bias && !saved[up_bias].defined();
      return saved[bias].defined() && context->needs_input_grad(bias - missing)
          ? saved[bias]
          : at::Tensor();
    };
    const at::ScalarType type = fp8_of_gradients(
        context->saved_data["hybrid"].toBool() ? Fp8Format::hybrid
                                               : Fp8Format::e4m3);
    const GeluKind kind = context->saved_data["exact"].toBool()
        ? GeluKind::exact
        : GeluKind::tanh;
    const Fp8Result result{outer[0].scalar_type(), /*exact_sums=*/true};
    const auto turned = [&](Input weight, Kept unit, Kept columns) {
      return weight_columns(saved[weight], saved[unit], saved[columns]);
    };
    const auto later = kept_deferral(*context);
    variable_list results(11);
    if (context->saved_data["adds"].toBool()) {
      results[residual] = outer[0];
    }
    Fp8Gradient of_answer = gradient_to_fp8(
        {dense_rows(outer[0])},
        type,
        wanted(down_bias),
        {.unit = saved[gradient_unit], .largest = saved[gradient_largest]});
    results[down_bias] = std::move(of_answer.bias);
    if (context->needs_input_grad(down_weight)) {
      results[down_weight] = fp8_weight_gradient_or_later(
          later,
          saved[down_weight],
          of_answer.matrix,
          {saved[wide_columns], saved[wide_unit]});
    }
    const at::Tensor of_wide = fp8_product(
        of_answer.matrix.by_rows(),
        turned(down_weight, down_unit, down_columns),
        {},
        result);
    Fp8Gradient of_sums = gradient_to_fp8(
        {of_wide, kind, saved[sums]},
        type,
        wanted(up_bias),
        {.unit = saved[sums_gradient_unit],
         .largest = saved[sums_gradient_largest]});
    results[up_bias] = std::move(of_sums.bias);
    if (context->needs_input_grad(input)) {
      results[input] = fp8_product(
                           of_sums.matrix.by_rows(),
                           turned(up_weight, up_unit, up_columns),
                           {},
                           result)
                           .view(context->saved_data["shape"].toIntVector());
    }
    if (context->needs_input_grad(up_weight)) {
      results[up_weight] = fp8_weight_gradient_or_later(
          later,
          saved[up_weight],
          of_sums.matrix,
          columns_of({saved[x_rows], saved[x_columns], saved[x_unit]}));
    }
    return results;
  }
};

} // namespace

at::Tensor fp8_gelu_mlp(
    const LayerInput& x,
    const at::Tensor& residual,
    const LinearParameters& up,
    const LinearParameters& down,
    GeluKind kind,
    const Fp8Use& fp8_up,
    const Fp8Use& fp8_down) {
  return Fp8GeluMlp::apply(
      in_compute_type(x.x),
      in_compute_type(up.weight),
      in_compute_type(down.weight),
      in_compute_type_if_defined(up.bias),
      in_compute_type_if_defined(down.bias),
      in_compute_type_if_defined(residual),
      kind,
      Fp8Factor{x.fp8_rows, x.fp8_unit},
      fp8_up.format,
      Fp8Scales::of(fp8_up),
      Fp8Scales::of(fp8_down));
}

} // namespace cairn::nn
