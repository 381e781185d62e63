#include <cairn/nn/linear_cross_entropy.h>

#include "kernels/internal/cpu/matrix_product.h"
#include "kernels/internal/cpu/score_row.h"
#include "kernels/internal/gradient_place.h"
#include "kernels/internal/in_parallel.h"
#include "nn/linear/column_sums.h"
#include "nn/linear/compute_type.h"
#include "nn/linear/product.h"
#include "nn/moe/token_shares.h"
#include "nn/parallel/group_capsule.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <cairn/base/error.h>
#include <cairn/nn/tensor_parallel.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

namespace cairn::nn {
namespace {

namespace cpu = kernels::cpu;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Number of tokens whose scores are computed at a time: few enough that the
/// scores stay small beside the weights, enough that products with the weights
/// pay.
std::int64_t tokens_per_chunk(const at::Tensor& hidden, std::int64_t rows) {
  const std::int64_t elements = std::int64_t{1} << (hidden.is_cpu() ? 24 : 27);
  return std::max<std::int64_t>(
      256,
      elements / std::max<std::int64_t>(rows, 1));
}

at::Tensor scores_of(const at::Tensor& hidden, const VocabularyHead& head) {
  return product(hidden, head.weight.t(), head.bias);
}

/// The loss of a chunk of tokens.
struct ChunkLoss {
  at::Tensor scores;  ///< exp(score - the rank's own highest), float
  at::Tensor share;   ///< factor from this rank's highest to that of all ranks
  at::Tensor sum;     ///< sum of all ranks' scores times share
  at::Tensor column;  ///< the label's column in this rank's scores
  at::Tensor is_here; ///< 1 where the label is in this rank's part
  at::Tensor each;    ///< cross entropy of each token
};

/// The values kept of a rank's rows of scores, which become exponentials.
struct RowSums {
  at::Tensor highest;
  at::Tensor sum;   ///< sum of e^(score - highest)
  at::Tensor label; ///< the label's score - highest
};

/// Sums each row while it is in the caches.
void sum_rows(
    const at::Tensor& scores,
    std::int64_t used,
    const at::Tensor& column,
    const RowSums& into) {
  if constexpr (cpu::has_matrix_product) {
    // Columns whose sum is exact enough in float.
    constexpr std::int64_t piece = 4096;
    const std::int64_t columns = scores.size(1);
    float* const first = scores.mutable_data_ptr<float>();
    const auto* const labels = column.const_data_ptr<std::int64_t>();
    float* const highest = into.highest.mutable_data_ptr<float>();
    float* const sum = into.sum.mutable_data_ptr<float>();
    float* const label = into.label.mutable_data_ptr<float>();
    kernels::in_parallel(
        scores.size(0),
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            float* const row = first + i * columns;
            highest[i] = cpu::highest_of(row, used);
            label[i] = row[labels[i]] - highest[i];
            double total = 0;
            for (std::int64_t j = 0; j < columns; j += piece) {
              const std::int64_t count = std::min(piece, columns - j);
              total += cpu::exponentials(
                  row + j,
                  std::clamp<std::int64_t>(used - j, 0, count),
                  count,
                  1,
                  highest[i]);
            }
            sum[i] = static_cast<float>(total);
          }
        });
  }
}

RowSums exponentials(
    at::Tensor& scores,
    std::int64_t used,
    const at::Tensor& column) {
  if (has_own_product(scores)) {
    const std::vector<std::int64_t> rows{scores.size(0)};
    const auto made = [&] { return at::empty(rows, scores.options()); };
    const RowSums sums{made(), made(), made()};
    sum_rows(scores, used, column, sums);
    return sums;
  }
  if (used < scores.size(1)) {
    scores.narrow(1, used, scores.size(1) - used)
        .fill_(-std::numeric_limits<float>::infinity());
  }
  RowSums sums;
  // The limit keeps this finite for a rank that has nothing but padding.
  sums.highest =
      scores.amax(1).clamp_min_(std::numeric_limits<float>::lowest());
  scores.sub_(sums.highest.unsqueeze(1));
  sums.label = scores.gather(1, column).squeeze(1);
  sums.sum = scores.exp_().sum(1);
  return sums;
}

ChunkLoss chunk_loss(
    const at::Tensor& hidden,
    const at::Tensor& labels,
    const VocabularyHead& head) {
  const VocabularyPart& part = head.part;
  ChunkLoss loss;
  loss.scores = scores_of(hidden, head).to(at::kFloat);
  const at::Tensor place = labels - part.begin;
  const at::Tensor here = place.ge(0).logical_and_(place.lt(part.used));
  loss.is_here = here.to(at::kFloat);
  loss.column = place.masked_fill(here.logical_not(), 0).unsqueeze(1);

  const RowSums own = exponentials(loss.scores, part.used, loss.column);
  at::Tensor highest = own.highest.clone();
  head.group.all_reduce(highest, distributed::ReduceOp::max).wait();
  const at::Tensor lower = own.highest - highest;
  loss.share = lower.exp();
  // Both in one tensor, for one collective.
  const at::Tensor both = at::stack(
      {(own.label + lower).masked_fill_(here.logical_not(), 0),
       own.sum * loss.share});
  head.group.all_reduce(both).wait();
  loss.sum = both.select(0, 1);
  loss.each = loss.sum.log() - both.select(0, 0);
  return loss;
}

/// Gradients of the sum of losses.
struct HeadGradients : torch::CustomClassHolder {
  at::Tensor hidden;
  at::Tensor weight; ///< float
  at::Tensor bias;   ///< float
  /// The sum of `hidden` over the group.
  std::optional<distributed::Pending> reducing;
};

/// Adds the chunk's part to the gradients. `loss.scores` become the gradients
/// of the scores.
void add_gradients(
    HeadGradients& gradients,
    at::Tensor of_hidden,
    ChunkLoss& loss,
    const at::Tensor& hidden,
    const at::Tensor& weights,
    const VocabularyHead& head) {
  at::Tensor& scores = loss.scores;
  scores.mul_((weights / loss.sum * loss.share).unsqueeze(1));
  scores.scatter_add_(
      1,
      loss.column,
      (weights * loss.is_here).neg_().unsqueeze(1));
  const at::Tensor in_type = scores.to(hidden.scalar_type());
  product_into(of_hidden, in_type, head.weight, Into::overwrite);
  if (!gradients.weight.defined()) {
    gradients.weight = product(in_type.t(), hidden).to(at::kFloat);
  } else if (hidden.scalar_type() == at::kFloat) {
    product_into(gradients.weight, in_type.t(), hidden, Into::add);
  } else {
    gradients.weight.add_(product(in_type.t(), hidden));
  }
  if (head.bias.defined()) {
    gradients.bias.add_(column_sums(scores));
  }
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
      ChunkLoss loss =
          chunk_loss(chunk, flat.labels.narrow(0, begin, length), head);
      total.add_((loss.each * chunk_weights).sum());
      if (with_gradients) {
        add_gradients(
            *gradients,
            gradients->hidden.narrow(0, begin, length),
            loss,
            chunk,
            chunk_weights,
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
    // The product is in float: the factor holds the loss scale and the number
    // of tokens.
    const auto scaled = [&](at::Tensor gradient) {
      return gradient.defined()
          ? gradient.to(at::kFloat).mul_(outer[0]).to(dtype)
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
        .copy_(chunk_loss(
                   all.narrow(0, begin, length),
                   flat.labels.narrow(0, begin, length),
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
      head.split_tokens)[0];
  return gather_columns(own, head.group).narrow(-1, 0, head.vocabulary);
}

} // namespace cairn::nn
