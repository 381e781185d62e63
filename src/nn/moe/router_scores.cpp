#include "nn/moe/router_scores.h"

#include "kernels/internal/cuda/expert_choice.h"
#include "nn/linear/gpu_kernel.h"
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

/// fp32 numbers [rows, columns] as two bf16 numbers each, [rows, 2 columns]:
/// first all that are rounded, then what this lost.
at::Tensor in_two_parts(const at::Tensor& x) {
  const auto narrow = x.options().dtype(at::kBFloat16);
  if (!kernels::cuda::has_kernels()) {
    const at::Tensor large = x.to(narrow);
    return at::cat({large, (x - large).to(narrow)}, 1);
  }
  at::Tensor both = at::empty({x.size(0), 2 * x.size(1)}, narrow);
  run_kernel(x, "two parts of numbers", [&](void* stream) {
    return kernels::cuda::split_floats(
        x.size(0),
        x.size(1),
        x.const_data_ptr<float>(),
        both.mutable_data_ptr(),
        stream);
  });
  return both;
}

/// Scores of bf16 tokens on a GPU. Products of two bf16 numbers are exact in
/// fp32, so nothing is lost when the factors are not widened first.
struct NarrowScores : torch::autograd::Function<NarrowScores> {
  static variable_list forward(
      AutogradContext* context,
      const at::Tensor& tokens,
      const at::Tensor& weight) {
    context->set_materialize_grads(false);
    context->save_for_backward({tokens, weight});
    const at::Tensor scores = at::empty(
        {tokens.size(0), weight.size(0)},
        tokens.options().dtype(at::kFloat));
    product_into(scores, tokens, weight.t(), Into::overwrite);
    return {scores, tokens};
  }

  /// The scores' gradients are in fp32. Each is the sum of two bf16 numbers, to
  /// 16 bits: products with both are added up in fp32.
  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("Mixture");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& tokens = saved[0];
    const at::Tensor& weight = saved[1];
    if (!outer[0].defined()) {
      return {outer[1], {}};
    }
    const at::Tensor both = in_two_parts(outer[0].contiguous());
    variable_list results(2);
    if (context->needs_input_grad(0)) {
      results[0] =
          product_added_to(outer[1], both, at::cat({weight, weight}, 0), {});
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

ScoredTokens router_scores(const at::Tensor& tokens, const at::Tensor& weight) {
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(
      c10::autocast_dispatch_keyset);
  if (tokens.is_cuda() && tokens.scalar_type() == at::kBFloat16 &&
      weight.scalar_type() == at::kBFloat16) {
    const variable_list both = NarrowScores::apply(tokens, weight);
    return {both[0], both[1]};
  }
  return {at::matmul(tokens.to(at::kFloat), weight.to(at::kFloat).t()), tokens};
}

} // namespace cairn::nn
