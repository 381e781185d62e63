#include <cairn/nn/tensor_parallel.h>

#include "nn/linear/column_sums.h"
#include "nn/linear/compute_type.h"
#include "nn/linear/linear_product.h"
#include "nn/linear/product.h"
#include "nn/linear/weight_gradient.h"
#include "nn/moe/token_shares.h"
#include "nn/parallel/arriving_shares.h"
#include "nn/parallel/deferral_capsule.h"
#include "nn/parallel/group_capsule.h"
#include "nn/parallel/scattered_product.h"

#include <ATen/ops/empty.h>

#include <optional>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The gradient of all tokens, and that of the input.
struct RowGradients {
  at::Tensor all;
  at::Tensor input;
};

/// Multiplies each rank's share of the gradient as soon as it is here.
RowGradients multiply_arriving(
    const at::Tensor& own,
    const at::Tensor& weight,
    const ProcessGroup& group) {
  ArrivingShares shares(own, group);
  const std::int64_t tokens = own.size(0);
  RowGradients result{
      .input =
          at::empty({tokens * group.size(), weight.size(1)}, own.options())};
  shares.for_each([&](int rank, const at::Tensor& share) {
    product_into(
        result.input.narrow(0, rank * tokens, tokens),
        share,
        weight,
        Into::overwrite);
  });
  result.all = shares.joined();
  return result;
}

struct RowProduct : torch::autograd::Function<RowProduct> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias,
      const ProcessGroup& group,
      TokenSplit tokens) {
    keep_group(*context, group);
    keep_deferral(*context);
    context->saved_data["tokens"] = static_cast<std::int64_t>(tokens);
    context->saved_data["shape"] = x.sizes().vec();
    context->save_for_backward(
        {weight.requires_grad() ? x : at::Tensor(), // for its gradient alone
         weight,
         bias.value_or(at::Tensor())});
    const at::Tensor rows = flat_tokens(x);
    const at::Tensor right = weight.t();
    const at::Tensor added =
        group.rank() == 0 ? bias.value_or(at::Tensor()) : at::Tensor();
    if (tokens == TokenSplit::none) {
      at::Tensor sum = product(rows, right, added);
      group.all_reduce(sum).wait();
      return sum.view({x.size(0), x.size(1), sum.size(1)});
    }
    check_divides(x, group);
    const at::Tensor share = tokens == TokenSplit::overlapped
        ? scattered_product({{rows, right}}, added, group)
        : group.reduce_scatter(product(rows, right, added)).wait();
    return as_share(share, x, group);
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    const ProcessGroup& group = kept_group(*context);
    const auto tokens =
        static_cast<TokenSplit>(context->saved_data["tokens"].toInt());
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& weight = saved[1];
    const at::Tensor& bias = saved[2];
    const at::Tensor own = flat_tokens(outer[0]);
    variable_list results(5);
    RowGradients gradient;
    if (tokens == TokenSplit::overlapped) {
      gradient = multiply_arriving(own, weight, group);
    } else {
      gradient.all =
          tokens == TokenSplit::none ? own : group.all_gather(own).wait();
      gradient.input = product(gradient.all, weight);
    }
    results[0] =
        gradient.input.view(context->saved_data["shape"].toIntVector());
    if (context->needs_input_grad(1)) {
      results[1] = weight_gradient_or_later(
          kept_deferral(*context),
          weight,
          gradient.all,
          flat_tokens(saved[0]));
    }
    if (bias.defined() && context->needs_input_grad(2)) {
      // Every rank has the whole bias: the gradient of its own tokens.
      results[2] = bias_gradient(bias, own);
    }
    return results;
  }
};

} // namespace

at::Tensor row_linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const ProcessGroup& group,
    TokenSplit tokens) {
  if (group.size() == 1) {
    return linear(x, weight, bias);
  }
  return RowProduct::apply(
      in_compute_type(x),
      in_compute_type(weight),
      in_compute_type_if_defined(bias),
      group,
      tokens);
}

} // namespace cairn::nn
