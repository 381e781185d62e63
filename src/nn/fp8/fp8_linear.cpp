#include "nn/fp8/fp8_linear.h"

#include "nn/fp8/fp8_history.h"
#include "nn/fp8/fp8_matrix.h"
#include "nn/fp8/fp8_product.h"
#include "nn/linear/compute_type.h"
#include "nn/linear/linear_product.h"
#include "nn/linear/second_derivatives.h"
#include "nn/parallel/deferral_capsule.h"

#include <ATen/ops/_unsafe_view.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool computes_in_fp8(
    const at::Tensor& x,
    const at::Tensor& weight,
    const std::optional<Fp8Use>& fp8) {
  return fp8 && fp8_takes(x.numel() / x.size(-1), x.size(-1), weight.size(0));
}

/// The gradient as somebody has rounded it, or rounded now.
Fp8Gradient gradient_of_result(
    AutogradContext& context,
    const at::Tensor& outer,
    const at::Tensor& bias,
    const Fp8Scale& scale) {
  if (RoundedGradient* const way = kept_rounded_gradient(context)) {
    if (auto rounded = way->take()) {
      return {*std::move(rounded), {}};
    }
  }
  return gradient_to_fp8(
      {dense_rows(outer)},
      fp8_of_gradients(
          context.saved_data["hybrid"].toBool() ? Fp8Format::hybrid
                                                : Fp8Format::e4m3),
      bias,
      scale);
}

struct Fp8Linear : torch::autograd::Function<Fp8Linear> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias_if_any,
      const Fp8Factor& rounded,
      Fp8Format format,
      const Fp8Scales& scales,
      const RoundedGradientPtr& of_result) {
    keep_deferral(*context);
    keep_rounded_gradient(*context, of_result);
    const at::Tensor bias = bias_if_any.value_or(at::Tensor());
    const Fp8Matrix given = input_to_fp8(x, rounded, weight, scales.input);
    const Fp8Matrix weights = scales.weight_to_fp8(weight);
    const at::Tensor result = fp8_product(
        given.by_rows(),
        weights.by_rows(),
        {bias},
        {x.scalar_type()});
    context->saved_data["shape"] = x.sizes().vec();
    context->saved_data["hybrid"] = format == Fp8Format::hybrid;
    context->save_for_backward(
        {rows_to_keep(given, weight),
         given.columns,
         given.unit,
         weight,
         weights.unit,
         bias,
         scales.gradient.unit,
         scales.gradient.largest,
         weights.columns});
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return at::_unsafe_view(result, shape); // for autograd not a view
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("fp8 linear layer");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& weight = saved[3];
    const at::Tensor& bias = saved[5];
    const bool of_bias = bias.defined() && context->needs_input_grad(2);
    Fp8Gradient gradient = gradient_of_result(
        *context,
        outer[0],
        of_bias ? bias : at::Tensor(),
        {.unit = saved[6], .largest = saved[7]});
    variable_list results(7);
    results[2] = std::move(gradient.bias);
    if (context->needs_input_grad(0)) {
      results[0] = fp8_product(
                       gradient.matrix.by_rows(),
                       weight_columns(weight, saved[4], saved[8]),
                       {},
                       {outer[0].scalar_type(), /*exact_sums=*/true})
                       .view(context->saved_data["shape"].toIntVector());
    }
    if (context->needs_input_grad(1)) {
      results[1] = fp8_weight_gradient_or_later(
          kept_deferral(*context),
          weight,
          gradient.matrix,
          columns_of({saved[0], saved[1], saved[2]}));
    }
    return results;
  }
};

} // namespace

RoundedGradientPtr way_of_rounded_gradient(
    const at::Tensor& x,
    const at::Tensor& weight,
    const std::optional<Fp8Use>& fp8) {
  if (!computes_in_fp8(x, weight, fp8)) {
    return {};
  }
  const Fp8Scale scale = Fp8Scales::of(fp8).gradient;
  return scale.unit.defined() ? c10::make_intrusive<RoundedGradient>(
                                    fp8_of_gradients(fp8->format),
                                    scale)
                              : RoundedGradientPtr();
}

at::Tensor fp8_linear(
    const LayerInput& given,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const std::optional<Fp8Use>& fp8,
    const RoundedGradientPtr& rounded) {
  const at::Tensor& x = given.x;
  if (!computes_in_fp8(x, weight, fp8)) {
    return linear(x, weight, bias);
  }
  return Fp8Linear::apply(
      in_compute_type(x),
      in_compute_type(weight),
      in_compute_type_if_defined(bias),
      Fp8Factor{given.fp8_rows, given.fp8_unit},
      fp8->format,
      Fp8Scales::of(fp8),
      rounded);
}

} // namespace cairn::nn
