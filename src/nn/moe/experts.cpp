#include <cairn/nn/mixture.h>

#include "nn/linear/gelu.h"
#include "nn/linear/linear_product.h"
#include "nn/moe/group_rows.h"
#include "nn/moe/grouped_gelu_mlp.h"
#include "nn/moe/grouped_product.h"
#include "nn/moe/known_ends.h"
#include "nn/recompute/filled_again.h"

#include <ATen/TensorOperators.h>
#include <cairn/base/error.h>
#include <cairn/nn/tensor_parallel.h>
#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

namespace cairn::nn {
namespace {

/// Cuts the experts over the expert group, and `dim` of each over the tensor
/// parallel group.
SlicedShape cut_experts(
    const LayerContext& context,
    std::vector<std::int64_t> whole,
    std::optional<std::size_t> dim) {
  const distributed::ProcessGroup& owners = context.expert_group;
  if (whole[0] % owners.size() != 0) {
    throw ConfigError(
        {.what = "the ranks cannot share out the experts evenly",
         .where = "--expert-model-parallel-size",
         .values = fmt::format("{} over {} ranks", whole[0], owners.size()),
         .remedy = "choose a size that divides the number of experts"});
  }
  SlicedShape shape = dim
      ? SlicedShape::cut(std::move(whole), *dim, context.group, context.path)
      : SlicedShape::all_of(std::move(whole));
  shape.local[0] /= owners.size();
  shape.offset[0] = shape.local[0] * owners.rank();
  return shape;
}

} // namespace

Experts::Product::Product(
    const LayerContext& context,
    std::int64_t experts,
    const LinearOptions& options,
    Cut cut) {
  const bool out = cut == Cut::out;
  weight_ = add_parameter(
      context,
      "weight",
      cut_experts(
          context,
          {experts, options.out, options.in},
          std::size_t{out ? 1U : 2U}),
      out ? model::InitialLaw::normal : model::InitialLaw::output_normal,
      Gradient::of_experts);
  if (options.bias) {
    bias_ = add_parameter(
        context,
        "bias",
        cut_experts(
            context,
            {experts, options.out},
            out ? std::optional<std::size_t>(1) : std::nullopt),
        model::InitialLaw::zero,
        Gradient::of_experts);
  }
  if (!out) {
    summed_over_ = context.group;
  }
}

at::Tensor Experts::Product::forward(const at::Tensor& x) const {
  if (summed_over_.size() == 1) {
    return linear(x, weight_, bias_);
  }
  const at::Tensor sum =
      reduce_from_group(linear(x, weight_, at::Tensor()), summed_over_);
  return bias_.defined() ? sum + bias_.unsqueeze(1) : sum;
}

at::Tensor Experts::Product::forward(
    const at::Tensor& rows,
    const RowGroups& groups) const {
  if (summed_over_.size() == 1) {
    return grouped_product(rows, weight_, bias_, groups);
  }
  const at::Tensor sum = reduce_from_group(
      grouped_product(rows, weight_, at::Tensor(), groups),
      summed_over_);
  return bias_.defined()
      ? with_group_biases(sum, bias_.to(sum.scalar_type()), groups)
      : sum;
}

Experts::Experts(
    const LayerContext& context,
    const MlpOptions& options,
    std::int64_t experts,
    Activated activated)
    : group_(context.group),
      expert_group_(context.expert_group),
      activation_(options.activation),
      activated_(activated) {
  const auto product =
      [&](const char* name, const LinearOptions& linear, Product::Cut cut) {
        return register_module(
            name,
            std::make_shared<Product>(context.in(name), experts, linear, cut));
      };
  const LinearOptions widen{options.hidden, options.ffn, options.bias};
  if (options.gated) {
    gate_ = product("gate", widen, Product::Cut::out);
  }
  up_ = product("up", widen, Product::Cut::out);
  down_ = product(
      "down",
      {options.ffn, options.hidden, options.bias},
      Product::Cut::in);
}

at::Tensor Experts::activated(const at::Tensor& wide, const at::Tensor& gate)
    const {
  if (gate.defined()) {
    return activate_gated(gate, wide, activation_);
  }
  const bool exact = activation_ == model::ActivationKind::gelu;
  if (activated_ == Activated::computed_again &&
      (exact || activation_ == model::ActivationKind::gelu_tanh)) {
    // forget() keeps the input, too.
    return gelu(
        wide,
        exact ? GeluKind::exact : GeluKind::tanh,
        GeluKeeps::input);
  }
  return activate(wide, activation_);
}

void Experts::forget(
    const at::Tensor& result,
    const at::Tensor& wide,
    const at::Tensor& gate,
    const at::Tensor& answers) const {
  if (activated_ == Activated::kept) {
    return;
  }
  fill_again_in_backward(
      result,
      {answers},
      [this,
       wide = wide.detach(),
       gate = gate.defined() ? gate.detach() : gate] {
        return activated(wide, gate);
      });
}

at::Tensor Experts::forward(const at::Tensor& x) const {
  const std::int64_t ranks = expert_group_.size();
  const std::int64_t here = x.size(0) / ranks;
  const std::int64_t slots = x.size(1);
  const std::int64_t hidden = x.size(2);
  at::Tensor given = copy_to_group(x, group_);
  if (ranks > 1) {
    // Gets the tokens of all ranks for the experts here.
    given = exchange(given, expert_group_)
                .view({ranks, here, slots, hidden})
                .transpose(0, 1)
                .reshape({here, ranks * slots, hidden});
  }
  const at::Tensor wide = up_->forward(given);
  const at::Tensor gate = gate_ ? gate_->forward(given) : at::Tensor();
  const at::Tensor result = activated(wide, gate);
  const at::Tensor answers = down_->forward(result);
  forget(result, wide, gate, answers);
  if (ranks == 1) {
    return answers;
  }
  return exchange(
      answers.view({here, ranks, slots, hidden})
          .transpose(0, 1)
          .reshape({ranks * here, slots, hidden}),
      expert_group_);
}

at::Tensor Experts::forward(const at::Tensor& rows, const RowGroups& groups)
    const {
  if (expert_group_.size() != 1) {
    throw UsageError(
        {.what = "groups of rows are for experts that are all on one rank",
         .values = fmt::format("{} ranks", expert_group_.size())});
  }
  RowGroups known = groups;
  if (!multiplies_groups(rows, up_->weight())) {
    known.known_ends = read_ends(groups); // once for all products
  }
  const bool exact = activation_ == model::ActivationKind::gelu;
  const bool is_gelu = exact || activation_ == model::ActivationKind::gelu_tanh;
  if (!gate_ && is_gelu && group_.size() == 1 &&
      has_grouped_gelu_mlp(rows, up_->weight(), down_->weight())) {
    return grouped_gelu_mlp(
        rows,
        {up_->weight(), up_->bias()},
        {down_->weight(), down_->bias()},
        exact ? GeluKind::exact : GeluKind::tanh,
        groups,
        activated_);
  }
  const at::Tensor given = copy_to_group(rows, group_);
  const at::Tensor wide = up_->forward(given, known);
  const at::Tensor gate = gate_ ? gate_->forward(given, known) : at::Tensor();
  const at::Tensor result = activated(wide, gate);
  const at::Tensor answers = down_->forward(result, known);
  forget(result, wide, gate, answers);
  return answers;
}

} // namespace cairn::nn
