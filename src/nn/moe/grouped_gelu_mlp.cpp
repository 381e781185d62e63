#include "nn/moe/grouped_gelu_mlp.h"

#include "nn/linear/compute_type.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/linear/second_derivatives.h"
#include "nn/moe/group_products.h"
#include "nn/moe/group_rows.h"
#include "nn/parallel/deferral_capsule.h"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct GroupedGeluMlp : torch::autograd::Function<GroupedGeluMlp> {
  /// Positions of forward()'s inputs, and of their gradients.
  enum Input { input, up_weight, down_weight, up_bias, down_bias };

  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& up,
      const at::Tensor& down,
      const std::optional<at::Tensor>& up_bias_if_any,
      const std::optional<at::Tensor>& down_bias_if_any,
      const at::Tensor& ends,
      GeluKind kind,
      Activated activated) {
    keep_deferral(*context);
    const RowGroups groups{ends};
    const at::Tensor up_addend = up_bias_if_any.value_or(at::Tensor());
    const at::Tensor down_addend = down_bias_if_any.value_or(at::Tensor());
    const auto [sums, wide] =
        group_products_gelu(x, up, up_addend, kind, groups);
    context->saved_data["exact"] = kind == GeluKind::exact;
    // Inputs of a product are kept for its weight's gradient alone.
    context->save_for_backward(
        {up.requires_grad() ? x : at::Tensor(),
         up,
         down,
         up_addend,
         down_addend,
         sums,
         down.requires_grad() && activated == Activated::kept ? wide
                                                              : at::Tensor(),
         ends});
    return group_products(wide, down, down_addend, groups);
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("Experts");
    const variable_list saved = context->get_saved_variables();
    const RowGroups groups{saved[7]};
    const auto wanted = [&](Input bias) {
      // A bias that is missing has no number among autograd's inputs.
      const int missing = bias == down_bias && !saved[up_bias].defined();
      return saved[bias].defined() && context->needs_input_grad(bias - missing);
    };
    const auto later = kept_deferral(*context);
    const at::Tensor gradient = outer[0].contiguous();
    variable_list results(8);
    const GeluKind kind = context->saved_data["exact"].toBool()
        ? GeluKind::exact
        : GeluKind::tanh;
    const auto [wide, of_up_bias] = group_gelu_gradients(
        gradient,
        saved[down_weight],
        saved[5],
        kind,
        groups);
    if (wanted(up_bias)) {
      results[up_bias] = of_up_bias.to(saved[up_bias].scalar_type());
    }
    if (wanted(down_bias)) {
      results[down_bias] =
          group_sums(gradient, groups).to(saved[down_bias].scalar_type());
    }
    if (context->needs_input_grad(down_weight)) {
      results[down_weight] = weight_gradients_or_later(
          later,
          saved[down_weight],
          gradient,
          // The sums have their bias already.
          saved[6].defined() ? saved[6]
                             : group_gelu(saved[5], {}, kind, groups),
          groups);
    }
    if (context->needs_input_grad(input)) {
      results[input] = input_gradients(wide, saved[up_weight], groups);
    }
    if (context->needs_input_grad(up_weight)) {
      results[up_weight] = weight_gradients_or_later(
          later,
          saved[up_weight],
          wide,
          saved[input],
          groups);
    }
    return results;
  }
};

} // namespace

bool has_grouped_gelu_mlp(
    const at::Tensor& x,
    const at::Tensor& up,
    const at::Tensor& down) {
  return is_on_gpu(x) && x.numel() > 0 && will_be_for_one_kernel(x, up) &&
      will_be_for_one_kernel(x, down);
}

at::Tensor grouped_gelu_mlp(
    const at::Tensor& x,
    const LinearParameters& up,
    const LinearParameters& down,
    GeluKind kind,
    const RowGroups& groups,
    Activated activated) {
  return GroupedGeluMlp::apply(
      in_compute_type(x),
      in_compute_type(up.weight),
      in_compute_type(down.weight),
      in_compute_type_if_defined(up.bias),
      in_compute_type_if_defined(down.bias),
      groups.ends,
      kind,
      activated);
}

} // namespace cairn::nn
