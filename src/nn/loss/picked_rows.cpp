#include "nn/loss/picked_rows.h"

#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

at::Tensor rows_or_zeros(const at::Tensor& x, const at::Tensor& rows) {
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
    at::Tensor sum = rows_or_zeros(gradients[0], back[0]);
    for (std::int64_t i = 1; i < back.size(0); ++i) {
      sum.add_(rows_or_zeros(gradients[0], back[i]));
    }
    return {sum, {}, {}};
  }
};

/// Picks rows; the number of all rows of `x` gives some row, since its weight
/// is 0.
at::Tensor rows_or_any(const at::Tensor& x, const at::Tensor& rows) {
  return x.index_select(0, rows.clamp_max(x.size(0) - 1));
}

struct MixedRows : Function<MixedRows> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& rows,
      const at::Tensor& weights,
      const at::Tensor& comers) {
    context->save_for_backward({x, rows, weights, comers});
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
    const at::Tensor& outer = gradients[0];
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
  return MixedRows::apply(x, rows, weights, comers);
}

at::Tensor picked_rows(
    const at::Tensor& x,
    const at::Tensor& rows,
    const at::Tensor& back) {
  return PickedRows::apply(x, rows, back);
}

} // namespace cairn::nn
