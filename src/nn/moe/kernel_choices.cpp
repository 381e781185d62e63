#include "nn/moe/kernel_choices.h"

#include "kernels/internal/cuda/expert_choice.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/linear/second_derivatives.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace cuda = kernels::cuda;

cuda::ExpertChoice shape_of(const at::Tensor& scores, std::int64_t picks) {
  return {.tokens = scores.size(0), .experts = scores.size(1), .picks = picks};
}

const float* floats_or_null_of(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}

at::Tensor without_gaps(const at::Tensor& x) {
  return x.defined() ? x.contiguous() : x;
}

struct ChosenByKernel : torch::autograd::Function<ChosenByKernel> {
  /// Returns the chosen experts' gates, the experts' means, the experts, their
  /// choices and their first choices.
  static variable_list forward(
      AutogradContext* context,
      const at::Tensor& scores,
      std::int64_t picks) {
    const cuda::ExpertChoice shape = shape_of(scores, picks);
    const auto numbers = scores.options().dtype(at::kLong);
    const at::Tensor experts = at::empty({picks, shape.tokens}, numbers);
    const at::Tensor counts = at::empty({shape.experts}, numbers);
    const at::Tensor firsts = at::empty_like(counts);
    const at::Tensor gates = at::empty({picks, shape.tokens}, scores.options());
    const at::Tensor means = at::empty({shape.experts}, scores.options());
    const at::Tensor log_sums = at::empty({shape.tokens}, scores.options());
    const at::Tensor workspace = at::empty(
        {cuda::choice_workspace(shape)},
        scores.options().dtype(at::kInt));
    run_kernel(scores, "choice of experts", [&](void* stream) {
      return cuda::choose_experts(
          shape,
          scores.const_data_ptr<float>(),
          {.experts = experts.mutable_data_ptr<std::int64_t>(),
           .gates = gates.mutable_data_ptr<float>(),
           .log_sums = log_sums.mutable_data_ptr<float>(),
           .means = means.mutable_data_ptr<float>(),
           .counts = counts.mutable_data_ptr<std::int64_t>(),
           .firsts = firsts.mutable_data_ptr<std::int64_t>()},
          workspace.mutable_data_ptr(),
          stream);
    });
    context->set_materialize_grads(false);
    context->mark_non_differentiable({experts, counts, firsts});
    context->save_for_backward({scores, log_sums, experts});
    return {gates, means, experts, counts, firsts};
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("Mixture");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& scores = saved[0];
    const at::Tensor& experts = saved[2];
    const at::Tensor of_gates = without_gaps(outer[0]);
    const at::Tensor of_means = without_gaps(outer[1]);
    const at::Tensor of_scores = at::empty_like(scores);
    run_kernel(scores, "gradients of the choice of experts", [&](void* stream) {
      return cuda::choose_experts_backward(
          shape_of(scores, experts.size(0)),
          scores.const_data_ptr<float>(),
          saved[1].const_data_ptr<float>(),
          experts.const_data_ptr<std::int64_t>(),
          floats_or_null_of(of_gates),
          floats_or_null_of(of_means),
          of_scores.mutable_data_ptr<float>(),
          stream);
    });
    return {of_scores, {}};
  }
};

} // namespace

bool has_choice_kernels(
    const at::Tensor& scores,
    const RoutingOptions& options) {
  return has_row_kernels(scores) && !options.sample_first &&
      !(options.top_k == 2 && options.sample_second) &&
      scores.size(1) <= cuda::most_chosen_experts;
}

Picked pick_by_kernel(const at::Tensor& scores, std::int64_t picks) {
  const variable_list chosen = ChosenByKernel::apply(scores, picks);
  return {
      .experts = chosen[2],
      .gates = chosen[0],
      .means = chosen[1],
      .counts = chosen[3],
      .firsts = chosen[4]};
}

} // namespace cairn::nn
