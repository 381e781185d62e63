#include <cairn/nn/tensor_parallel.h>

#include "nn/linear/column_sums.h"
#include "nn/linear/compute_type.h"
#include "nn/linear/linear_product.h"
#include "nn/linear/product.h"
#include "nn/linear/weight_gradient.h"
#include "nn/moe/token_shares.h"
#include "nn/parallel/arriving_shares.h"
#include "nn/parallel/deferral_capsule.h"
#include "nn/parallel/group_capsule.h"
#include "nn/parallel/scattered_product.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <optional>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// Multiplies each rank's share of the tokens as soon as it is here. Returns
/// the products of all tokens, one for each weight.
variable_list multiply_arriving_shares(
    const at::Tensor& own,
    at::TensorList weights,
    const std::function<at::Tensor(std::size_t)>& bias_of,
    const ProcessGroup& group) {
  ArrivingShares shares(own, group);
  const std::int64_t tokens = own.size(0);
  variable_list products;
  for (const at::Tensor& weight : weights) {
    products.push_back(
        at::empty({tokens * group.size(), weight.size(0)}, own.options()));
  }
  shares.for_each([&](int rank, const at::Tensor& share) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      product_with_bias_into(
          products[i].narrow(0, rank * tokens, tokens),
          share,
          weights[i].t(),
          bias_of(i));
    }
  });
  return products;
}

/// A product of several weights. `parameters` are the weights, then their
/// biases if there are any.
struct ColumnProduct : Function<ColumnProduct> {
  static variable_list forward(
      AutogradContext* context,
      const at::Tensor& x,
      at::TensorList parameters,
      std::size_t weights,
      const ProcessGroup& group,
      TokenSplit tokens) {
    keep_group(*context, group);
    keep_deferral(*context);
    context->saved_data["tokens"] = static_cast<std::int64_t>(tokens);
    context->saved_data["biases"] = parameters.size() > weights;
    const at::TensorList products_of = parameters.slice(0, weights);
    variable_list saved{x};
    saved.insert(saved.end(), products_of.begin(), products_of.end());
    context->save_for_backward(std::move(saved));
    const auto bias_of = [&](std::size_t i) {
      return parameters.size() > weights ? parameters[weights + i]
                                         : at::Tensor();
    };
    variable_list products;
    if (tokens == TokenSplit::overlapped) {
      products =
          multiply_arriving_shares(flat_tokens(x), products_of, bias_of, group);
    } else {
      const at::Tensor all = tokens == TokenSplit::split
          ? group.all_gather(flat_tokens(x)).wait()
          : flat_tokens(x);
      for (std::size_t i = 0; i < weights; ++i) {
        products.push_back(product(all, parameters[i].t(), bias_of(i)));
      }
    }
    for (at::Tensor& each : products) {
      each = each.view({x.size(0), -1, each.size(1)});
    }
    return products;
  }

  static variable_list backward(
      AutogradContext* context,
      variable_list gradients) {
    const ProcessGroup& group = kept_group(*context);
    const auto tokens =
        static_cast<TokenSplit>(context->saved_data["tokens"].toInt());
    const bool split_tokens = tokens != TokenSplit::none;
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
    at::Tensor of_input;
    std::optional<distributed::Pending> reducing;
    if (tokens == TokenSplit::overlapped && later) {
      // No other product follows that could hide the sum over the ranks.
      std::vector<ProductFactors> factors;
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        factors.push_back({gradients[i], weights[i]});
      }
      of_input = scattered_product(factors, {}, group);
    } else {
      of_input = product(gradients[0], weights[0]);
      for (std::size_t i = 1; i < gradients.size(); ++i) {
        product_into(of_input, gradients[i], weights[i], Into::add);
      }
      reducing.emplace(
          split_tokens ? group.reduce_scatter(of_input)
                       : group.all_reduce(of_input));
    }
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
    if (reducing) {
      of_input = reducing->wait();
    }
    results[0] = of_input.view(x.sizes());
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
    TokenSplit tokens) {
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
        tokens);
  }
  std::vector<at::Tensor> products;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    products.push_back(linear(x, weights[i], biases[i]));
  }
  return products;
}

} // namespace cairn::nn
