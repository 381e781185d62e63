#include "nn/loss/word_rows.h"

#include "kernels/internal/gradient_place.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <torch/csrc/autograd/custom_function.h>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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
  return table.is_cpu() ? WordRows::apply(table, ids)
                        : at::embedding(table, ids);
}

} // namespace cairn::nn
