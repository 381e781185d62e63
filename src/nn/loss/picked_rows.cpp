#include "nn/loss/picked_rows.h"

#include "kernels/internal/cuda/mix_rows.h"
#include "nn/linear/gpu_kernel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

namespace cuda = kernels::cuda;

/// True when the GPU's kernels take the rows of x.
bool has_mix_kernels(const at::Tensor& x) {
  return has_row_kernels(x) && x.dim() == 2 && x.numel() > 0;
}

/// The sums of rows that `rows`, [picks, count], names.
cuda::MixedRows mix_shape(const at::Tensor& x, const at::Tensor& rows) {
  return {
      .count = rows.size(1),
      .picks = rows.size(0),
      .from = x.size(0),
      .columns = x.size(1),
      .element = *kernels::element_of(x.scalar_type())};
}

/// Sums rows on a GPU. Without `weights` all count the same.
at::Tensor mixed_on_gpu(
    const at::Tensor& x,
    const at::Tensor& rows,
    const at::Tensor& weights) {
  const at::Tensor picks = rows.contiguous();
  const at::Tensor y = at::empty({rows.size(1), x.size(1)}, x.options());
  run_kernel(x, "mixed rows", [&](void* stream) {
    return cuda::mix_rows(
        mix_shape(x, picks),
        x.const_data_ptr(),
        picks.const_data_ptr<std::int64_t>(),
        weights.defined() ? weights.const_data_ptr<float>() : nullptr,
        y.mutable_data_ptr(),
        stream);
  });
  return y;
}

at::Tensor rows_or_zeros(const at::Tensor& x, const at::Tensor& rows) {
  if (has_mix_kernels(x)) {
    return mixed_on_gpu(x, rows.unsqueeze(0), {});
  }
  const std::int64_t none = x.size(0);
  return x.index_select(0, rows.clamp_max(none - 1))
      .masked_fill_(rows.eq(none).unsqueeze(1), 0);
}

struct PickedRows : Function<PickedRows> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& rows,
      const at::Tensor& back) {
    context->save_for_backward({back});
    return rows_or_zeros(x, rows);
  }
  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    const at::Tensor back = context->get_saved_variables()[0];
    const at::Tensor outer = gradients[0].contiguous();
    if (has_mix_kernels(outer)) {
      return {mixed_on_gpu(outer, back, {}), {}, {}};
    }
    at::Tensor sum = rows_or_zeros(outer, back[0]);
    for (std::int64_t i = 1; i < back.size(0); ++i) {
      sum.add_(rows_or_zeros(outer, back[i]));
    }
    return {sum, {}, {}};
  }
};

/// Picks rows; the number of all rows of `x` gives some row, since its weight
/// is 0.
at::Tensor rows_or_any(const at::Tensor& x, const at::Tensor& rows) {
  return x.index_select(0, rows.clamp_max(x.size(0) - 1));
}

/// Gradients of weighted sums of rows on a GPU, of the rows and of the weights.
std::pair<at::Tensor, at::Tensor> mixed_backward_on_gpu(
    const at::Tensor& gradient,
    const at::Tensor& x,
    const at::Tensor& rows,
    const at::Tensor& weights,
    const at::Tensor& comers) {
  std::pair of{
      at::empty_like(x),
      at::zeros(weights.sizes(), weights.options())};
  run_kernel(x, "gradients of mixed rows", [&](void* stream) {
    return cuda::mix_rows_backward(
        mix_shape(x, rows),
        gradient.const_data_ptr(),
        x.const_data_ptr(),
        comers.const_data_ptr<std::int64_t>(),
        weights.const_data_ptr<float>(),
        of.first.mutable_data_ptr(),
        of.second.mutable_data_ptr<float>(),
        stream);
  });
  return of;
}

struct MixedRows : Function<MixedRows> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& rows,
      const at::Tensor& weights,
      const at::Tensor& comers) {
    context->save_for_backward({x, rows, weights, comers});
    if (has_mix_kernels(x) && weights.scalar_type() == at::kFloat) {
      return mixed_on_gpu(x, rows, weights);
    }
    // Summed in the weights' type, and rounded once.
    at::Tensor sum = rows_or_any(x, rows[0])
                         .to(weights.scalar_type())
                         .mul_(weights[0].unsqueeze(1));
    for (std::int64_t i = 1; i < rows.size(0); ++i) {
      sum.addcmul_(rows_or_any(x, rows[i]), weights[i].unsqueeze(1));
    }
    return sum.to(x.scalar_type());
  }
  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& rows = saved[1];
    const at::Tensor& comers = saved[3];
    const at::Tensor outer = gradients[0].contiguous();
    if (has_mix_kernels(x) && saved[2].scalar_type() == at::kFloat &&
        outer.scalar_type() == x.scalar_type()) {
      auto [of_rows, of_each] =
          mixed_backward_on_gpu(outer, x, rows, saved[2], comers);
      return {std::move(of_rows), {}, std::move(of_each), {}};
    }
    const at::Tensor weights_there =
        rows_or_zeros(saved[2].reshape({-1, 1}), comers);
    const at::Tensor of_x =
        outer.index_select(0, comers.remainder(outer.size(0)))
            .mul_(weights_there);
    std::vector<at::Tensor> of_weights;
    for (std::int64_t i = 0; i < rows.size(0); ++i) {
      of_weights.push_back(
          rows_or_any(x, rows[i]).to(at::kFloat).mul_(outer).sum(1));
    }
    return {of_x, {}, at::stack(of_weights), {}};
  }
};

} // namespace

at::Tensor mixed_rows(
    const at::Tensor& x,
    const at::Tensor& rows,
    const at::Tensor& weights,
    const at::Tensor& comers) {
  return MixedRows::apply(x, rows, weights.contiguous(), comers.contiguous());
}

at::Tensor picked_rows(
    const at::Tensor& x,
    const at::Tensor& rows,
    const at::Tensor& back) {
  return PickedRows::apply(x, rows, back);
}

} // namespace cairn::nn
