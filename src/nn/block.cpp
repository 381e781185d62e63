#include <cairn/nn/block.h>

#include "nn/recompute/filled_again.h"

#include <cairn/base/error.h>
#include <cairn/nn/module_scope.h>

#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn::nn {
namespace {

/// call(), which traces show as the work of that part of the block.
template <typename Call>
auto as_part(std::string_view name, Call call) {
  const ModuleScope scope(name);
  return call();
}

} // namespace

Block::Block(const LayerContext& context, const BlockOptions& options)
    : options_(options),
      attention_dropout_(context, "attention_dropout", options.dropout),
      cross_attention_dropout_(
          context,
          "cross_attention_dropout",
          options.dropout),
      mlp_dropout_(context, "mlp_dropout", options.dropout) {
  const bool before = options.norm_place == model::NormPlace::before;
  if (options.cross_attention && !before) {
    throw UsageError(
        {.what = "cross attention goes with norms before it, not after"});
  }
  if (options.parallel_residual && (!before || options.cross_attention)) {
    throw UsageError(
        {.what = "attention and MLP side by side go with norms before them, "
                 "and without cross attention"});
  }
  const auto norm = [&](const std::string& name) {
    return register_module(
        name,
        std::make_shared<Norm>(
            context.in(name),
            options.attention.hidden,
            options.norm));
  };
  if (before) {
    input_norm_ = norm("input_norm");
  }
  attention_ = register_module(
      "attention",
      std::make_shared<SelfAttention>(
          context.in("attention"),
          options.attention));
  attention_norm_ = norm(before ? "post_attention_norm" : "attention_norm");
  if (options.cross_attention) {
    cross_attention_ = register_module(
        "cross_attention",
        std::make_shared<CrossAttention>(
            context.in("cross_attention"),
            options.attention));
    cross_attention_norm_ = norm("post_cross_attention_norm");
  }
  if (options.mixture) {
    mixture_ = register_module(
        "mlp",
        std::make_shared<Mixture>(context.in("mlp"), *options.mixture));
  } else {
    mlp_ = register_module(
        "mlp",
        std::make_shared<Mlp>(context.in("mlp"), options.mlp));
  }
  if (!before) {
    output_norm_ = norm("output_norm");
  }
}

Block::Output Block::forward(const at::Tensor& x, const BlockInput& input)
    const {
  if (options_.parallel_residual) {
    return side_by_side(x, input);
  }
  return options_.norm_place == model::NormPlace::before
      ? norms_before(x, input)
      : norms_after(x, input);
}

Block::Output Block::side_by_side(const at::Tensor& x, const BlockInput& input)
    const {
  const auto [beside, first] =
      input_norm_->pass_to(attention_->first_layer(), x);
  const at::Tensor attended = attention_->forward(first, input);
  forget(first, input_norm_, beside, {attended});
  const auto [stream, second] = attention_norm_->pass(beside);
  const Output added = mlp(second);
  forget(second, attention_norm_, stream, added);
  return {
      stream + dropped(attention_dropout_, attended, input) +
          dropped(mlp_dropout_, added.hidden, input),
      added.balance_loss};
}

Block::Output Block::norms_before(const at::Tensor& x, const BlockInput& input)
    const {
  const auto [stream, first] =
      input_norm_->pass_to(attention_->first_layer(), x);
  const at::Tensor attended = as_part("attention", [&, &read = first] {
    return attention_->forward(read, input);
  });
  forget(first, input_norm_, stream, {attended});
  const at::Tensor branch = dropped(attention_dropout_, attended, input);
  const bool drops = is_training() && mlp_dropout_.is_on();
  if (mlp_ && !cross_attention_ && !drops && !options_.recompute_mlp) {
    const auto [middle, read] =
        attention_norm_->pass_to(mlp_->first_layer(), stream, branch);
    const Output all{as_part("mlp", [&, &sum = middle, &normal = read] {
      return mlp_->forward_added_to(sum, normal);
    })};
    forget(read, attention_norm_, middle, all);
    return all;
  }
  auto [sum, normal] = attention_norm_->pass(stream, branch);
  if (cross_attention_) {
    const at::Tensor crossed = as_part("cross_attention", [&, &read = normal] {
      return cross_attention_->forward(read, input);
    });
    forget(normal, attention_norm_, sum, {crossed});
    std::tie(sum, normal) = cross_attention_norm_->pass(
        sum,
        dropped(cross_attention_dropout_, crossed, input));
  }
  const std::shared_ptr<Norm>& last =
      cross_attention_ ? cross_attention_norm_ : attention_norm_;
  if (mlp_ && !drops && !options_.recompute_mlp) {
    const Output all{as_part("mlp", [&, &residual = sum, &read = normal] {
      return mlp_->forward_added_to(residual, read);
    })};
    forget(normal, last, sum, all);
    return all;
  }
  const Output added = mlp(normal);
  forget(normal, last, sum, added);
  return {sum + dropped(mlp_dropout_, added.hidden, input), added.balance_loss};
}

Block::Output Block::norms_after(const at::Tensor& x, const BlockInput& input)
    const {
  const at::Tensor attended =
      as_part("attention", [&] { return attention_->forward(x, input); });
  const auto [sum, middle] =
      attention_norm_->pass(x, dropped(attention_dropout_, attended, input));
  const Output added = mlp(middle);
  at::Tensor result =
      output_norm_->pass(middle, dropped(mlp_dropout_, added.hidden, input))
          .second;
  forget(middle, attention_norm_, sum, added);
  return {std::move(result), added.balance_loss};
}

void Block::forget(
    const LayerInput& normal,
    const std::shared_ptr<Norm>& norm,
    const at::Tensor& input,
    const Output& results) const {
  // A norm that is rounded to fp8 has no memory of its own.
  if (options_.recompute_norms && !normal.fp8_rows.defined()) {
    fill_again_in_backward(
        normal.x,
        {results.hidden, results.balance_loss},
        [norm, input = input.detach()] { return norm->forward(input); });
  }
}

Block::Output Block::mlp(const at::Tensor& x) const {
  if (!options_.recompute_mlp) {
    return run_mlp(x);
  }
  const auto outputs = checkpoint(
      *options_.recompute_mlp,
      [this](const at::Tensor& again) {
        const Output output = run_mlp(again);
        std::vector<at::Tensor> tensors{output.hidden};
        if (output.balance_loss.defined()) {
          tensors.push_back(output.balance_loss);
        }
        return tensors;
      },
      x);
  return {outputs[0], outputs.size() > 1 ? outputs[1] : at::Tensor()};
}

Block::Output Block::run_mlp(const at::Tensor& x) const {
  const ModuleScope scope("mlp");
  if (!mixture_) {
    return {mlp_->forward(x)};
  }
  const Mixture::Output mixed = mixture_->forward(x);
  return {mixed.hidden, mixed.balance_loss};
}

at::Tensor Block::dropped(
    const Dropout& dropout,
    const at::Tensor& branch,
    const BlockInput& input) const {
  return is_training() ? dropout.forward(branch, input.samples) : branch;
}

} // namespace cairn::nn
