#include "plan/product_speeds.h"

#include "nn/fp8/fp8_product.h"
#include "nn/linear/product.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

namespace {

using namespace cairn; // NOLINT

ProductSeconds in_16_bits(
    const Timer& timer,
    Operands& operands,
    std::int64_t tokens,
    std::int64_t out,
    std::int64_t in) {
  const at::Tensor sums = at::empty(
      {out, in},
      at::TensorOptions(operands.device()).dtype(at::kFloat));
  const auto x = [&] { return operands.next(tokens, in); };
  const auto weight = [&] { return operands.next(out, in); };
  const auto gradient = [&] { return operands.next(tokens, out); };
  return {
      .forward = timer([&] { nn::product(x(), weight().t()); }),
      .input_gradient = timer([&] { nn::product(gradient(), weight()); }),
      .weight_gradient = timer([&] {
        nn::product_into(sums, gradient().t(), x(), nn::Into::overwrite);
      })};
}

ProductSeconds in_8_bits(
    const Timer& timer,
    Operands& operands,
    std::int64_t tokens,
    std::int64_t out,
    std::int64_t in) {
  const at::Tensor unit =
      at::ones({1}, at::TensorOptions(operands.device()).dtype(at::kFloat));
  // The factors have the order in which the units read them.
  const auto factor = [&](std::int64_t rows, std::int64_t depth) {
    return nn::Fp8Factor{operands.next(rows, depth, at::kFloat8_e4m3fn), unit};
  };
  return {
      .forward = timer([&] {
        nn::fp8_product(factor(tokens, in), factor(out, in), {}, {});
      }),
      .input_gradient = timer([&] {
        nn::fp8_product(
            factor(tokens, out),
            factor(in, out),
            {},
            {.exact_sums = true});
      }),
      .weight_gradient = timer([&] {
        nn::fp8_product(
            factor(out, tokens),
            factor(in, tokens),
            {},
            {.type = at::kFloat, .exact_sums = true});
      })};
}

} // namespace

ProductSeconds product_seconds(
    const Timer& timer,
    Operands& operands,
    Bits bits,
    std::int64_t tokens,
    std::int64_t out,
    std::int64_t in) {
  const at::NoGradGuard no_grad;
  return bits == Bits::sixteen ? in_16_bits(timer, operands, tokens, out, in)
                               : in_8_bits(timer, operands, tokens, out, in);
}

plan::ProductSpeeds product_speeds(
    const Timer& timer,
    Operands& operands,
    Bits bits,
    const std::vector<std::int64_t>& tokens,
    const std::vector<std::int64_t>& widths) {
  const std::vector<double> sides(widths.begin(), widths.end());
  plan::ProductSpeeds found;
  for (plan::SpeedGrid* each :
       {&found.forward, &found.input_gradient, &found.weight_gradient}) {
    each->axes = {
        std::vector<double>(tokens.begin(), tokens.end()),
        sides,
        sides};
  }
  for (const std::int64_t rows : tokens) {
    for (const std::int64_t out : widths) {
      for (const std::int64_t in : widths) {
        const ProductSeconds took =
            product_seconds(timer, operands, bits, rows, out, in);
        const auto operations = 2 * static_cast<double>(rows) *
            static_cast<double>(out) * static_cast<double>(in);
        found.forward.speeds.push_back(operations / took.forward);
        found.input_gradient.speeds.push_back(operations / took.input_gradient);
        found.weight_gradient.speeds.push_back(
            operations / took.weight_gradient);
      }
    }
  }
  return found;
}
