#include "nn/fp8/fp8_swiglu_mlp.h"

#include "nn/fp8/fp8_history.h"
#include "nn/fp8/fp8_matrix.h"
#include "nn/fp8/fp8_product.h"
#include "nn/linear/compute_type.h"
#include "nn/linear/second_derivatives.h"
#include "nn/parallel/deferral_capsule.h"

#include <ATen/ops/_unsafe_view.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The scales of a gated MLP's products.
struct SwiGluScales {
  Fp8Scales gate;
  Fp8Scales up;
  Fp8Scales down;
};

struct Fp8SwiGluMlp : torch::autograd::Function<Fp8SwiGluMlp> {
  /// Positions of forward()'s inputs, and of their gradients.
  enum Input { input, gate_weight, up_weight, down_weight, residual };
  /// Positions of what is kept, after the weights.
  enum Kept {
    gate_unit = 4,
    gate_columns,
    up_unit,
    up_columns,
    down_unit,
    down_columns,
    x_rows,
    x_columns,
    x_unit,
    gate_sums,
    up_sums,
    wide_columns,
    wide_unit,
    of_gate_unit,
    of_gate_largest,
    of_up_unit,
    of_up_largest,
    of_answer_unit,
    of_answer_largest
  };

  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& gate,
      const at::Tensor& up,
      const at::Tensor& down,
      const std::optional<at::Tensor>& residual_if_any,
      const Fp8Factor& rounded,
      Fp8Format format,
      const SwiGluScales& scales) {
    keep_deferral(*context);
    const Fp8Result result{x.scalar_type()};
    const Fp8Matrix given = input_to_fp8(x, rounded, gate, scales.gate.input);
    const Fp8Matrix gates = scales.gate.weight_to_fp8(gate);
    const Fp8Matrix ups = scales.up.weight_to_fp8(up);
    const at::Tensor of_gate =
        fp8_product(given.by_rows(), gates.by_rows(), {}, result);
    const at::Tensor of_up =
        fp8_product(given.by_rows(), ups.by_rows(), {}, result);
    const Fp8Matrix wide = to_fp8(
        {.matrix = of_up, .sums = of_gate},
        fp8_of_values,
        order_of_input(down),
        scales.down.input);
    const Fp8Matrix downs = scales.down.weight_to_fp8(down);
    const at::Tensor answer = fp8_product(
        wide.by_rows(),
        downs.by_rows(),
        {.matrix =
             residual_if_any ? dense_rows(*residual_if_any) : at::Tensor()},
        result);
    context->saved_data["adds"] = residual_if_any.has_value();
    context->saved_data["hybrid"] = format == Fp8Format::hybrid;
    context->saved_data["shape"] = x.sizes().vec();
    context->save_for_backward(
        {{},
         gate,
         up,
         down,
         gates.unit,
         gates.columns,
         ups.unit,
         ups.columns,
         downs.unit,
         downs.columns,
         rows_to_keep(given, gate),
         given.columns,
         given.unit,
         of_gate,
         of_up,
         wide.columns,
         wide.unit,
         scales.gate.gradient.unit,
         scales.gate.gradient.largest,
         scales.up.gradient.unit,
         scales.up.gradient.largest,
         scales.down.gradient.unit,
         scales.down.gradient.largest});
    return at::_unsafe_view(answer, x.sizes()); // for autograd not a view
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("Mlp");
    const variable_list saved = context->get_saved_variables();
    const auto later = kept_deferral(*context);
    const at::ScalarType type = fp8_of_gradients(
        context->saved_data["hybrid"].toBool() ? Fp8Format::hybrid
                                               : Fp8Format::e4m3);
    const Fp8Result result{outer[0].scalar_type(), /*exact_sums=*/true};
    variable_list results(8);
    if (context->saved_data["adds"].toBool()) {
      results[residual] = outer[0];
    }
    const auto rounded = [&](const Fp8Values& values, Kept unit, Kept largest) {
      return to_fp8(
          values,
          type,
          Fp8Order::both,
          {.unit = saved[unit], .largest = saved[largest]});
    };
    const auto through = [&](const Fp8Matrix& gradient,
                             Input weight,
                             Kept unit,
                             Kept columns,
                             const at::Tensor& addend) {
      return fp8_product(
          gradient.by_rows(),
          weight_columns(saved[weight], saved[unit], saved[columns]),
          {.matrix = addend},
          result);
    };
    const auto add_weight =
        [&](Input weight, const Fp8Matrix& gradient, const Fp8Factor& columns) {
          if (context->needs_input_grad(weight)) {
            results[weight] = fp8_weight_gradient_or_later(
                later,
                saved[weight],
                gradient,
                columns);
          }
        };
    const Fp8Matrix of_answer =
        rounded({dense_rows(outer[0])}, of_answer_unit, of_answer_largest);
    add_weight(down_weight, of_answer, {saved[wide_columns], saved[wide_unit]});
    const at::Tensor of_wide =
        through(of_answer, down_weight, down_unit, down_columns, {});
    const Fp8Matrix of_gate = rounded(
        {.matrix = of_wide, .sums = saved[gate_sums], .other = saved[up_sums]},
        of_gate_unit,
        of_gate_largest);
    const Fp8Matrix of_up = rounded(
        {.matrix = of_wide, .sums = saved[gate_sums]},
        of_up_unit,
        of_up_largest);
    if (context->needs_input_grad(input)) {
      const at::Tensor first =
          through(of_gate, gate_weight, gate_unit, gate_columns, {});
      results[input] = through(of_up, up_weight, up_unit, up_columns, first)
                           .view(context->saved_data["shape"].toIntVector());
    }
    if (context->needs_input_grad(gate_weight) ||
        context->needs_input_grad(up_weight)) {
      const Fp8Factor columns =
          columns_of({saved[x_rows], saved[x_columns], saved[x_unit]});
      add_weight(gate_weight, of_gate, columns);
      add_weight(up_weight, of_up, columns);
    }
    return results;
  }
};

} // namespace

at::Tensor fp8_swiglu_mlp(
    const LayerInput& x,
    const at::Tensor& residual,
    const SwiGluWeights& weights,
    const Fp8SwiGluUse& fp8) {
  return Fp8SwiGluMlp::apply(
      in_compute_type(x.x),
      in_compute_type(weights.gate),
      in_compute_type(weights.up),
      in_compute_type(weights.down),
      in_compute_type_if_defined(residual),
      Fp8Factor{x.fp8_rows, x.fp8_unit},
      fp8.gate.format,
      SwiGluScales{
          Fp8Scales::of(fp8.gate),
          Fp8Scales::of(fp8.up),
          Fp8Scales::of(fp8.down)});
}

} // namespace cairn::nn
