#include <cairn/nn/vocabulary.h>

#include "base/internal/recorded_names.h"
#include "kernels/internal/gradient_place.h"
#include "nn/linear/column_sums.h"
#include "nn/linear/compute_type.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/linear/product.h"
#include "nn/loss/row_losses.h"
#include "nn/loss/word_scores.h"
#include "nn/moe/token_shares.h"
#include "nn/parallel/group_capsule.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <cairn/base/error.h>
#include <cairn/nn/tensor_parallel.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace cairn::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Gradients of the sum of losses.
struct HeadGradients : torch::CustomClassHolder {
  at::Tensor hidden;
  at::Tensor weight; ///< float
  at::Tensor bias;   ///< float
  /// The sum of `hidden` over the group.
  std::optional<distributed::Pending> reducing;
};

/// Adds the part of a chunk of tokens to the gradients. `of_scores` are the
/// gradients of its scores.
void add_gradients(
    HeadGradients& gradients,
    at::Tensor of_hidden,
    const at::Tensor& of_scores,
    const at::Tensor& hidden,
    const VocabularyHead& head) {
  RECORD_USER_SCOPE(base::gradients_scope);
  const at::Tensor in_type = of_scores.to(hidden.scalar_type());
  product_into(of_hidden, in_type, head.weight, Into::overwrite);
  const Into how = gradients.weight.defined() ? Into::add : Into::overwrite;
  if (how == Into::overwrite) {
    gradients.weight =
        at::empty(head.weight.sizes(), hidden.options().dtype(at::kFloat));
  }
  product_into(gradients.weight, in_type.t(), hidden, how);
  if (head.bias.defined()) {
    gradients.bias.add_(column_sums(of_scores));
  }
}

/// Gradients times a factor, which holds the loss scale and the number of
/// tokens: the product is in float.
at::Tensor scaled_gradient(
    at::Tensor gradient,
    const at::Tensor& factor,
    at::ScalarType type) {
  const auto element = kernels::element_of(type);
  if (!has_row_kernels(gradient) || !element ||
      factor.scalar_type() != at::kFloat) {
    return gradient.to(at::kFloat).mul_(factor).to(type);
  }
  const at::Tensor result = gradient.scalar_type() == type
      ? gradient
      : at::empty(gradient.sizes(), gradient.options().dtype(type));
  run_kernel(gradient, "scaled gradient", [&](void* stream) {
    return kernels::cuda::scale(
        gradient.const_data_ptr(),
        *kernels::element_of(gradient.scalar_type()),
        factor.const_data_ptr<float>(),
        result.mutable_data_ptr(),
        *element,
        gradient.numel(),
        stream);
  });
  return result;
}

struct FlatLabels {
  at::Tensor labels;
  at::Tensor weights; ///< float; 0 where there is no label
};

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& hidden,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias,
      const VocabularyHead& given,
      const FlatLabels& flat,
      bool with_gradients) {
    VocabularyHead head = given;
    head.weight = weight;
    head.bias = bias.value_or(at::Tensor());
    const at::Tensor own = flat_tokens(hidden);
    const at::Tensor all =
        head.split_tokens ? head.group.all_gather(own).wait() : own;
    const auto gradients = c10::make_intrusive<HeadGradients>();
    const auto floats = all.options().dtype(at::kFloat);
    if (with_gradients) {
      gradients->hidden = at::empty_like(all);
      if (bias) {
        gradients->bias = at::zeros(bias->sizes(), floats);
      }
    }
    at::Tensor total = at::zeros({}, floats);
    const std::int64_t step = tokens_per_chunk(all, head.part.rows);
    for (std::int64_t begin = 0; begin < all.size(0); begin += step) {
      const std::int64_t length = std::min(step, all.size(0) - begin);
      const at::Tensor chunk = all.narrow(0, begin, length);
      const at::Tensor chunk_weights = flat.weights.narrow(0, begin, length);
      const RowLosses losses = row_losses(
          word_scores(chunk, head),
          flat.labels.narrow(0, begin, length),
          with_gradients ? chunk_weights : at::Tensor(),
          head);
      total.add_((losses.each * chunk_weights).sum());
      if (with_gradients) {
        add_gradients(
            *gradients,
            gradients->hidden.narrow(0, begin, length),
            losses.gradients,
            chunk,
            head);
      }
    }
    if (with_gradients) {
      if (!gradients->weight.defined()) { // no tokens at all
        gradients->weight = at::zeros(weight.sizes(), floats);
      }
      // The sum runs while the host goes on to backward.
      gradients->reducing.emplace(
          head.split_tokens ? head.group.reduce_scatter(gradients->hidden)
                            : head.group.all_reduce(gradients->hidden));
      context->save_for_backward({weight});
      context->saved_data["gradients"] = c10::IValue::make_capsule(gradients);
      context->saved_data["shape"] = hidden.sizes().vec();
      context->saved_data["dtype"] =
          static_cast<std::int64_t>(weight.scalar_type());
    }
    return total;
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    auto& kept = context->saved_data;
    const auto found = kept.find("gradients");
    if (found == kept.end()) {
      throw InternalError(
          {.what = "backward through a cross entropy a second time",
           .remedy = "compute the loss again: its gradients are given away"});
    }
    const auto capsule = found->second.toCapsule();
    kept.erase("gradients");
    auto& gradients = static_cast<HeadGradients&>(*capsule);
    const auto dtype = static_cast<at::ScalarType>(kept["dtype"].toInt());
    const auto scaled = [&](at::Tensor gradient) {
      return gradient.defined()
          ? scaled_gradient(std::move(gradient), outer[0], dtype)
          : at::Tensor();
    };
    at::Tensor of_hidden = gradients.reducing->wait();
    gradients.hidden.reset();
    const at::Tensor weight = context->get_saved_variables()[0];
    kernels::GradientPlace* const wanted = kernels::gradient_place(weight);
    at::Tensor place = wanted ? wanted->take() : at::Tensor();
    if (place.defined()) {
      at::mul_out(place, gradients.weight, outer[0]);
      gradients.weight.reset();
    } else {
      place = scaled(std::move(gradients.weight));
    }
    // The results are moved out, so that autograd can keep them without a copy.
    variable_list results{
        scaled(std::move(of_hidden)).view(kept["shape"].toIntVector()),
        std::move(place),
        scaled(std::move(gradients.bias))};
    results.resize(6);
    return results;
  }
};

FlatLabels flat_labels(const at::Tensor& labels, const at::Tensor& weights) {
  const at::Tensor flat = labels.reshape({-1});
  at::Tensor counts = flat.ge(0).to(at::kFloat);
  if (weights.defined()) {
    counts.mul_(weights.reshape({-1}));
  }
  return {flat, counts};
}

} // namespace

at::Tensor linear_cross_entropy(
    const at::Tensor& hidden,
    const VocabularyHead& head,
    const at::Tensor& labels,
    const at::Tensor& weights) {
  const FlatLabels flat = flat_labels(labels, weights);
  const bool with_gradients = at::GradMode::is_enabled() &&
      (hidden.requires_grad() || head.weight.requires_grad());
  const at::Tensor bias = in_compute_type(head.bias);
  return LinearCrossEntropy::apply(
      in_compute_type(hidden),
      in_compute_type(head.weight),
      bias.defined() ? std::optional(bias) : std::nullopt,
      head,
      flat,
      with_gradients);
}

at::Tensor token_cross_entropy(
    const at::Tensor& hidden,
    const VocabularyHead& head,
    const at::Tensor& labels) {
  const at::NoGradGuard no_grad;
  const FlatLabels flat = flat_labels(labels, {});
  const at::Tensor own = flat_tokens(hidden);
  const at::Tensor all =
      head.split_tokens ? head.group.all_gather(own).wait() : own;
  at::Tensor losses = at::empty({all.size(0)}, all.options().dtype(at::kFloat));
  const std::int64_t step = tokens_per_chunk(all, head.part.rows);
  for (std::int64_t begin = 0; begin < all.size(0); begin += step) {
    const std::int64_t length = std::min(step, all.size(0) - begin);
    losses.narrow(0, begin, length)
        .copy_(row_losses(
                   word_scores(all.narrow(0, begin, length), head),
                   flat.labels.narrow(0, begin, length),
                   {},
                   head)
                   .each);
  }
  return losses.mul_(flat.weights).view(labels.sizes());
}

at::Tensor logits(const at::Tensor& hidden, const VocabularyHead& head) {
  const at::Tensor own = column_linear(
      hidden,
      {head.weight},
      {head.bias},
      head.group,
      head.split_tokens ? TokenSplit::split : TokenSplit::none)[0];
  return gather_columns(own, head.group).narrow(-1, 0, head.vocabulary);
}

} // namespace cairn::nn
