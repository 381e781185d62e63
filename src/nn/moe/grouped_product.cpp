#include "nn/moe/grouped_product.h"

#include "nn/linear/compute_type.h"
#include "nn/linear/second_derivatives.h"
#include "nn/moe/group_products.h"
#include "nn/moe/group_rows.h"
#include "nn/moe/known_ends.h"
#include "nn/parallel/deferral_capsule.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <vector>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct GroupedProduct : torch::autograd::Function<GroupedProduct> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias,
      const at::Tensor& ends,
      const std::vector<std::int64_t>& known_ends) {
    keep_deferral(*context);
    RowGroups groups{ends, known_ends};
    if (!are_for_one_kernel(x, weight)) {
      groups.known_ends = read_ends(groups);
    }
    context->saved_data["ends"] = groups.known_ends;
    context->save_for_backward(
        {weight.requires_grad() ? x : at::Tensor(), // for its gradient alone
         weight,
         bias.value_or(at::Tensor()),
         ends});
    return group_products(x, weight, bias.value_or(at::Tensor()), groups);
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("Experts");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& weight = saved[1];
    const at::Tensor& bias = saved[2];
    const RowGroups groups{saved[3], context->saved_data["ends"].toIntVector()};
    const at::Tensor gradient = outer[0].contiguous();
    variable_list results(5);
    if (bias.defined() && context->needs_input_grad(2)) {
      results[2] = group_sums(gradient, groups).to(bias.scalar_type());
    }
    if (context->needs_input_grad(0)) {
      results[0] = input_gradients(gradient, weight, groups);
    }
    if (context->needs_input_grad(1)) {
      results[1] = weight_gradients_or_later(
          kept_deferral(*context),
          weight,
          gradient,
          saved[0],
          groups);
    }
    return results;
  }
};

void check_groups(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const RowGroups& groups) {
  const bool fits = x.dim() == 2 && weight.dim() == 3 &&
      x.size(1) == weight.size(2) && groups.ends.dim() == 1 &&
      groups.ends.scalar_type() == at::kInt &&
      groups.ends.size(0) == weight.size(0) &&
      (!bias.defined() ||
       (bias.dim() == 2 && bias.size(0) == weight.size(0) &&
        bias.size(1) == weight.size(1)));
  if (!fits) {
    throw UsageError(
        {.what =
             "groups of rows, [rows, in], are multiplied by as many weights, "
             "[groups, out, in], with biases, [groups, out]",
         .values = fmt::format(
             "rows of {} dimensions, weights of {}, {} groups",
             x.dim(),
             weight.dim(),
             groups.ends.numel())});
  }
}

} // namespace

bool multiplies_groups(const at::Tensor& x, const at::Tensor& weight) {
  return will_be_for_one_kernel(x, weight);
}

at::Tensor grouped_product(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const RowGroups& groups) {
  check_groups(x, weight, bias, groups);
  return GroupedProduct::apply(
      in_compute_type(x),
      in_compute_type(weight),
      in_compute_type_if_defined(bias),
      groups.ends,
      groups.known_ends);
}

} // namespace cairn::nn
