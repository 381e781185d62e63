#include "nn/loss/word_rows.h"

#include "kernels/internal/cuda/table_rows.h"
#include "kernels/internal/gradient_place.h"
#include "nn/linear/gpu_kernel.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Adds gradients of rows to a table, on the GPU.
void add_rows(
    const at::Tensor& table,
    const at::Tensor& ids,
    const at::Tensor& gradients) {
  // A stable order, so that sums do not vary.
  const auto [numbers, order] =
      at::sort(ids.reshape(-1), std::optional<bool>(true), 0);
  const kernels::cuda::PickedRows picked{
      .gradients = gradients.const_data_ptr(),
      .element = *kernels::element_of(gradients.scalar_type()),
      .count = numbers.numel(),
      .columns = table.size(1),
      .numbers = numbers.const_data_ptr<std::int64_t>(),
      .order = order.const_data_ptr<std::int64_t>()};
  const at::Tensor scratch = at::empty(
      {kernels::cuda::table_scratch(picked)},
      table.options().dtype(at::kFloat));
  run_kernel(table, "gradients of a table's rows", [&](void* stream) {
    return kernels::cuda::add_to_table(
        picked,
        scratch.mutable_data_ptr<float>(),
        table.mutable_data_ptr(),
        *kernels::element_of(table.scalar_type()),
        stream);
  });
}

/// The table's gradient, undefined when it was added where it is wanted.
at::Tensor gradient_on_gpu(
    const at::Tensor& table,
    const at::Tensor& ids,
    const at::Tensor& gradients) {
  kernels::GradientPlace* const wanted = kernels::gradient_place(table);
  const auto sum = wanted ? wanted->take_sum() : kernels::GradientPlace::Sum();
  if (!sum.memory.defined()) {
    const at::Tensor gradient = at::zeros_like(table);
    add_rows(gradient, ids, gradients);
    return gradient;
  }
  if (!sum.add) {
    sum.memory.zero_();
  }
  add_rows(sum.memory, ids, gradients);
  wanted->arrived();
  return {};
}

struct WordRows : torch::autograd::Function<WordRows> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& table,
      const at::Tensor& ids) {
    context->save_for_backward({table, ids});
    return at::embedding(table, ids);
  }

  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& table = saved[0];
    const at::Tensor& ids = saved[1];
    if (is_on_gpu(gradients[0])) {
      return {gradient_on_gpu(table, ids, gradients[0].contiguous()), {}};
    }
    kernels::GradientPlace* const wanted = kernels::gradient_place(table);
    if (wanted && wanted->add_rows(ids, gradients[0])) {
      return variable_list(2);
    }
    return {
        at::embedding_dense_backward(
            gradients[0],
            ids,
            table.size(0),
            -1,
            false),
        {}};
  }
};

} // namespace

at::Tensor word_rows(const at::Tensor& table, const at::Tensor& ids) {
  return table.is_cpu() || is_on_gpu(table) ? WordRows::apply(table, ids)
                                            : at::embedding(table, ids);
}

} // namespace cairn::nn
