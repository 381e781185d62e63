#include "nn/moe/group_rows.h"

#include "kernels/internal/cuda/group_rows.h"
#include "nn/linear/column_sums.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/linear/kernel_gelu.h"
#include "nn/moe/known_ends.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <vector>

namespace cairn::nn {
namespace {

kernels::cuda::GroupedRows kernel_rows(
    const at::Tensor& x,
    const RowGroups& groups) {
  return {
      .rows = x.size(0),
      .columns = x.size(1),
      .groups = groups.ends.numel(),
      .ends = groups.ends.const_data_ptr<std::int32_t>(),
      .element = *kernels::element_of(x.scalar_type())};
}

at::Tensor parts_for(
    const kernels::cuda::GroupedRows& rows,
    const at::Tensor& x) {
  return at::empty(
      {rows.groups, kernels::cuda::group_parts(rows), rows.columns},
      x.options().dtype(at::kFloat));
}

bool takes_kernel(const at::Tensor& x) {
  return has_row_kernels(x) && x.numel() > 0;
}

struct GroupBiases : torch::autograd::Function<GroupBiases> {
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& biases,
      const at::Tensor& ends,
      const std::vector<std::int64_t>& known_ends) {
    const RowGroups groups{ends, known_ends};
    context->save_for_backward({ends});
    context->saved_data["ends"] = known_ends;
    context->saved_data["type"] = biases.scalar_type();
    at::Tensor sums = x.clone(at::MemoryFormat::Contiguous);
    add_group_biases(sums, biases, groups);
    return sums;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list outer) {
    const RowGroups groups{
        context->get_saved_variables()[0],
        context->saved_data["ends"].toIntVector()};
    at::Tensor of_biases;
    if (context->needs_input_grad(1)) {
      of_biases = group_sums(outer[0].contiguous(), groups)
                      .to(context->saved_data["type"].toScalarType());
    }
    return {outer[0], of_biases, {}, {}};
  }
};

} // namespace

at::Tensor group_gelu(
    const at::Tensor& x,
    const at::Tensor& biases,
    GeluKind kind,
    const RowGroups& groups) {
  // ZeRO-3 brings the biases there when it sees them.
  const std::array<c10::IValue, 2> inputs{x, biases};
  RECORD_FUNCTION("cairn::group_gelu", inputs);
  const at::Tensor y = at::empty_like(x);
  const at::Tensor dense = biases.defined() ? biases.contiguous() : biases;
  run_kernel(x, "GELU of groups", [&](void* stream) {
    return kernels::cuda::add_group_biases_gelu(
        kernel_rows(x, groups),
        kernel_gelu(kind),
        data_or_null(dense),
        x.mutable_data_ptr(),
        y.mutable_data_ptr(),
        stream);
  });
  return y;
}

at::Tensor group_gelu_backward(
    const at::Tensor& gradient,
    const at::Tensor& x,
    GeluKind kind,
    const RowGroups& groups) {
  const kernels::cuda::GroupedRows rows = kernel_rows(x, groups);
  const at::Tensor parts = parts_for(rows, x);
  run_kernel(x, "gradients of GELU of groups", [&](void* stream) {
    return kernels::cuda::group_gelu_backward(
        rows,
        kernel_gelu(kind),
        x.const_data_ptr(),
        gradient.mutable_data_ptr(),
        parts.mutable_data_ptr<float>(),
        stream);
  });
  return parts.sum(1);
}

at::Tensor with_group_biases(
    const at::Tensor& x,
    const at::Tensor& biases,
    const RowGroups& groups) {
  return GroupBiases::apply(x, biases, groups.ends, groups.known_ends);
}

void add_group_biases(
    const at::Tensor& x,
    const at::Tensor& biases,
    const RowGroups& groups) {
  // ZeRO-3 brings the biases there when it sees them.
  const std::array<c10::IValue, 2> inputs{x, biases};
  RECORD_FUNCTION("cairn::group_biases", inputs);
  if (takes_kernel(x) && biases.is_contiguous() &&
      biases.scalar_type() == x.scalar_type()) {
    run_kernel(x, "biases of groups", [&](void* stream) {
      return kernels::cuda::add_group_biases(
          kernel_rows(x, groups),
          biases.const_data_ptr(),
          x.mutable_data_ptr(),
          stream);
    });
    return;
  }
  std::int64_t begin = 0;
  std::int64_t group = 0;
  for (const std::int64_t end : read_ends(groups)) {
    x.narrow(0, begin, end - begin).add_(biases.select(0, group++));
    begin = end;
  }
}

at::Tensor group_sums(const at::Tensor& x, const RowGroups& groups) {
  if (takes_kernel(x)) {
    const kernels::cuda::GroupedRows rows = kernel_rows(x, groups);
    const at::Tensor parts = parts_for(rows, x);
    run_kernel(x, "sums of groups", [&](void* stream) {
      return kernels::cuda::group_sums(
          rows,
          x.const_data_ptr(),
          parts.mutable_data_ptr<float>(),
          stream);
    });
    return parts.sum(1);
  }
  const at::Tensor sums =
      at::zeros({groups.ends.numel(), x.size(1)}, x.options());
  std::int64_t begin = 0;
  std::int64_t group = 0;
  for (const std::int64_t end : read_ends(groups)) {
    sums.select(0, group++).copy_(column_sums(x.narrow(0, begin, end - begin)));
    begin = end;
  }
  return sums;
}

} // namespace cairn::nn
