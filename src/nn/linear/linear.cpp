#include <cairn/nn/linear.h>

#include "nn/fp8/fp8_history.h"
#include "nn/fp8/fp8_matrix.h"
#include "nn/fp8/fp8_parallel.h"
#include "nn/linear/linear_product.h"

#include <cairn/nn/tensor_parallel.h>

namespace cairn::nn {
namespace {

TokenSplit token_split(const LayerContext& context, bool overlap) {
  if (!context.splits_tokens()) {
    return TokenSplit::none;
  }
  return overlap ? TokenSplit::overlapped : TokenSplit::split;
}

bool is_split(TokenSplit tokens) {
  return tokens != TokenSplit::none;
}

} // namespace

ColumnLinear::ColumnLinear(
    const LayerContext& context,
    const LinearOptions& options)
    : Fp8Layer(context),
      group_(context.group),
      tokens_(token_split(context, options.overlap_tokens)) {
  const auto cut = [&](std::vector<std::int64_t> shape) {
    return SlicedShape::cut(std::move(shape), 0, group_, context.path);
  };
  weight_ = add_parameter(
      context,
      "weight",
      cut({options.out, options.in}),
      model::InitialLaw::normal);
  if (options.bias) {
    bias_ = add_parameter(
        context,
        "bias",
        cut({options.out}),
        model::InitialLaw::zero);
  }
}

bool ColumnLinear::takes_rounded(const at::Tensor& x) const {
  return group_.size() == 1 && fp8() && fp8()->history &&
      fp8()->history->scale_of(Fp8History::input).unit.defined() &&
      weight_.scalar_type() == x.scalar_type() &&
      fp8_takes(x.numel() / x.size(-1), x.size(-1), weight_.size(0));
}

at::Tensor ColumnLinear::forward(const LayerInput& x) const {
  return fp8()
      ? fp8_column_linear(x, weight_, bias_, group_, is_split(tokens_), *fp8())
      : column_linear(x.x, {weight_}, {bias_}, group_, tokens_)[0];
}

RowLinear::RowLinear(const LayerContext& context, const LinearOptions& options)
    : Fp8Layer(context),
      group_(context.group),
      tokens_(token_split(context, options.overlap_tokens)) {
  weight_ = add_parameter(
      context,
      "weight",
      SlicedShape::cut({options.out, options.in}, 1, group_, context.path),
      model::InitialLaw::output_normal);
  if (options.bias) {
    bias_ = add_parameter(
        context,
        "bias",
        SlicedShape::all_of({options.out}),
        model::InitialLaw::zero,
        Gradient::of_own_tokens);
  }
}

at::Tensor RowLinear::forward(const at::Tensor& x) const {
  return fp8()
      ? fp8_row_linear(x, weight_, bias_, group_, is_split(tokens_), *fp8())
      : row_linear(x, weight_, bias_, group_, tokens_);
}

Linear::Linear(const LayerContext& context, const LinearOptions& options) {
  weight_ = add_parameter(
      context,
      "weight",
      SlicedShape::all_of({options.out, options.in}),
      model::InitialLaw::normal);
  if (options.bias) {
    bias_ = add_parameter(
        context,
        "bias",
        SlicedShape::all_of({options.out}),
        model::InitialLaw::zero);
  }
}

at::Tensor Linear::forward(const at::Tensor& x) const {
  return linear(x, weight_, bias_);
}

} // namespace cairn::nn
