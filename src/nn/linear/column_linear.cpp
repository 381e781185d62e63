#include <cairn/nn/tensor_parallel.h>

#include "nn/linear/column_sums.h"
#include "nn/linear/compute_type.h"
#include "nn/linear/linear_product.h"
#include "nn/linear/product.h"
#include "nn/linear/weight_gradient.h"
#include "nn/moe/token_shares.h"
#include "nn/parallel/deferral_capsule.h"
#include "nn/parallel/group_capsule.h"

#include <algorithm>
#include <optional>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// A product of several weights. `parameters` are the weights, then their
/// biases if there are any.
struct ColumnProduct : Function<ColumnProduct> {
  static variable_list forward(
      AutogradContext* context,
      const at::Tensor& x,
      at::TensorList parameters,
      std::size_t weights,
      const ProcessGroup& group,
      bool split_tokens) {
    keep_group(*context, group);
    keep_deferral(*context);
    context->saved_data["split_tokens"] = split_tokens;
    context->saved_data["biases"] = parameters.size() > weights;
    const at::TensorList products_of = parameters.slice(0, weights);
    variable_list saved{x};
    saved.insert(saved.end(), products_of.begin(), products_of.end());
    context->save_for_backward(std::move(saved));
    const at::Tensor all =
        split_tokens ? group.all_gather(flat_tokens(x)).wait() : flat_tokens(x);
    variable_list products;
    for (std::size_t i = 0; i < weights; ++i) {
      const at::Tensor bias =
          parameters.size() > weights ? parameters[weights + i] : at::Tensor();
      products.push_back(product(all, parameters[i].t(), bias)
                             .view({x.size(0), -1, parameters[i].size(0)}));
    }
    return products;
  }

  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    const ProcessGroup& group = kept_group(*context);
    const bool split_tokens = context->saved_data["split_tokens"].toBool();
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::TensorList weights(saved.data() + 1, saved.size() - 1);
    auto later = kept_deferral(*context);
    if (!std::ranges::all_of(weights, &DeferredGradients::takes)) {
      later = nullptr;
    }
    std::optional<distributed::Pending> gathering;
    if (split_tokens && !later) {
      gathering.emplace(group.all_gather(flat_tokens(x)));
    }
    for (at::Tensor& gradient : gradients) {
      gradient = flat_tokens(gradient);
    }
    at::Tensor of_input = product(gradients[0], saved[1]);
    for (std::size_t i = 1; i < gradients.size(); ++i) {
      product_into(of_input, gradients[i], saved[1 + i], Into::add);
    }
    distributed::Pending reducing = split_tokens
        ? group.reduce_scatter(of_input)
        : group.all_reduce(of_input);
    variable_list results{{}};
    if (later) {
      // All ranks of the group run this later in the same order. They can
      // therefore gather the tokens then, and need not keep them.
      later->add(weights.vec(), [gradients, x, group, split_tokens] {
        const at::Tensor all = split_tokens
            ? group.all_gather(flat_tokens(x)).wait()
            : flat_tokens(x);
        variable_list products;
        for (const at::Tensor& gradient : gradients) {
          products.push_back(product(gradient.t(), all));
        }
        return products;
      });
      results.resize(1 + weights.size());
    } else {
      const at::Tensor all = gathering ? gathering->wait() : flat_tokens(x);
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        results.push_back(weight_gradient(weights[i], gradients[i], all));
      }
    }
    if (context->saved_data["biases"].toBool()) {
      for (const at::Tensor& gradient : gradients) {
        results.push_back(column_sums(gradient));
      }
    }
    results[0] = reducing.wait().view(x.sizes());
    results.resize(results.size() + 3);
    return results;
  }
};

} // namespace

std::vector<at::Tensor> column_linear(
    const at::Tensor& x,
    const std::vector<at::Tensor>& weights,
    const std::vector<at::Tensor>& biases,
    const ProcessGroup& group,
    bool split_tokens) {
  const bool biased = biases[0].defined();
  if (group.size() > 1) {
    variable_list parameters;
    for (const at::Tensor& weight : weights) {
      parameters.push_back(in_compute_type(weight));
    }
    for (const at::Tensor& bias : biases) {
      if (biased) {
        parameters.push_back(in_compute_type(bias));
      }
    }
    return ColumnProduct::apply(
        in_compute_type(x),
        at::TensorList(parameters),
        weights.size(),
        group,
        split_tokens);
  }
  std::vector<at::Tensor> products;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    products.push_back(linear(x, weights[i], biases[i]));
  }
  return products;
}

} // namespace cairn::nn
