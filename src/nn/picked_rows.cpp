#include "nn/picked_rows.h"

#include <torch/csrc/autograd/custom_function.h>

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

} // namespace

at::Tensor picked_rows(
    const at::Tensor& x,
    const at::Tensor& rows,
    const at::Tensor& back) {
  return PickedRows::apply(x, rows, back);
}

} // namespace cairn::nn
