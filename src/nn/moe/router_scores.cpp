#include "nn/moe/router_scores.h"

#include "nn/linear/product.h"
#include "nn/linear/second_derivatives.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Scores of bf16 tokens on a GPU. Products of two bf16 numbers are exact in
/// fp32, so nothing is lost when the factors are not widened first.
struct NarrowScores : torch::autograd::Function<NarrowScores> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& tokens,
      const at::Tensor& weight) {
    context->save_for_backward({tokens, weight});
    const at::Tensor scores = at::empty(
        {tokens.size(0), weight.size(0)},
        tokens.options().dtype(at::kFloat));
    product_into(scores, tokens, weight.t(), Into::overwrite);
    return scores;
  }

  /// The scores' gradients are in fp32. Each is the sum of two bf16 numbers, to
  /// 16 bits: products with both are added up in fp32.
  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("Mixture");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& tokens = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor large = outer[0].to(tokens.scalar_type());
    const at::Tensor rest = (outer[0] - large).to(tokens.scalar_type());
    const at::Tensor both = at::cat({large, rest}, 1);
    variable_list results(2);
    if (context->needs_input_grad(0)) {
      results[0] = product(both, at::cat({weight, weight}, 0));
    }
    if (context->needs_input_grad(1)) {
      const std::int64_t experts = weight.size(0);
      const at::Tensor sums =
          at::empty({2 * experts, tokens.size(1)}, outer[0].options());
      product_into(sums, both.t(), tokens, Into::overwrite);
      results[1] =
          (sums.narrow(0, 0, experts) + sums.narrow(0, experts, experts))
              .to(weight.scalar_type());
    }
    return results;
  }
};

} // namespace

at::Tensor router_scores(const at::Tensor& tokens, const at::Tensor& weight) {
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(
      c10::autocast_dispatch_keyset);
  if (tokens.is_cuda() && tokens.scalar_type() == at::kBFloat16 &&
      weight.scalar_type() == at::kBFloat16) {
    return NarrowScores::apply(tokens, weight);
  }
  return at::matmul(tokens.to(at::kFloat), weight.to(at::kFloat).t());
}

} // namespace cairn::nn
