#include "nn/moe/group_products.h"

#include "kernels/internal/gradient_place.h"
#include "nn/linear/compute_type.h"
#include "nn/linear/product.h"
#include "nn/moe/group_rows.h"
#include "nn/moe/kernel_matrix.h"
#include "nn/moe/known_ends.h"
#include "nn/moe/own_group_products.h"

#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <array>
#include <cstdint>
#include <vector>

namespace cairn::nn {
namespace {

bool suits_one_kernel(
    at::ScalarType of_x,
    at::ScalarType of_weight,
    const at::Tensor& weight) {
  constexpr std::int64_t most_groups = 1023;
  return weight.is_cuda() && of_x == at::kBFloat16 &&
      of_weight == at::kBFloat16 && weight.size(1) % 8 == 0 &&
      weight.size(2) % 8 == 0 && weight.size(0) <= most_groups;
}

/// Calls body(group, first row, number of rows).
template <typename Body>
void for_groups(const RowGroups& groups, const Body& body) {
  std::int64_t begin = 0;
  std::int64_t group = 0;
  for (const std::int64_t end : read_ends(groups)) {
    body(group++, begin, end - begin);
    begin = end;
  }
}

/// The products of all groups of `x` with their matrices, [groups, depth,
/// columns], one after the other.
at::Tensor looped_products(
    const at::Tensor& x,
    const at::Tensor& matrices,
    const RowGroups& groups) {
  const at::Tensor result =
      at::empty({x.size(0), matrices.size(2)}, x.options());
  for_groups(groups, [&](std::int64_t i, std::int64_t begin, std::int64_t n) {
    if (n > 0) {
      product_into(
          result.narrow(0, begin, n),
          x.narrow(0, begin, n),
          matrices.select(0, i),
          Into::overwrite);
    }
  });
  return result;
}

/// Sets `into`, [groups, out, in], to the products of transposed groups, or
/// adds them to it.
void transposed_products_into(
    const at::Tensor& into,
    const at::Tensor& gradient,
    const at::Tensor& x,
    const RowGroups& groups,
    Into how) {
  for_groups(groups, [&](std::int64_t i, std::int64_t begin, std::int64_t n) {
    at::Tensor one = into.select(0, i);
    if (n > 0) {
      product_into(
          one,
          gradient.narrow(0, begin, n).t(),
          x.narrow(0, begin, n),
          how);
    } else if (how == Into::overwrite) {
      one.zero_();
    }
  });
}

/// Gradients of all weights, [groups, out, in].
at::Tensor weight_gradients(
    const at::Tensor& gradient,
    const at::Tensor& x,
    const at::Tensor& weight,
    const RowGroups& groups) {
  if (has_own_products(x, weight)) {
    const at::Tensor result = at::empty(weight.sizes(), x.options());
    own_weight_gradients_into(result, gradient, x, groups, /*add=*/false);
    return result;
  }
  if (are_for_one_kernel(x, weight)) {
    return at::_grouped_mm(
        for_kernel(gradient).t(),
        for_kernel(x),
        groups.ends);
  }
  const at::Tensor result = at::empty(weight.sizes(), x.options());
  transposed_products_into(result, gradient, x, groups, Into::overwrite);
  return result;
}

/// Gradients of all weights; nothing where they are wanted in a place of their
/// own (kernels::gradient_place), to which they are then written or added.
at::Tensor weight_gradients_or_none(
    const at::Tensor& gradient,
    const at::Tensor& x,
    const at::Tensor& weight,
    const RowGroups& groups) {
  kernels::GradientPlace* const wanted = kernels::gradient_place(weight);
  const auto sum = wanted ? wanted->take_sum() : kernels::GradientPlace::Sum();
  if (!sum.memory.defined()) {
    return weight_gradients(gradient, x, weight, groups);
  }
  if (has_own_products(x, weight) && takes_own_weight_gradients(sum.memory)) {
    own_weight_gradients_into(sum.memory, gradient, x, groups, sum.add);
  } else if (are_for_one_kernel(x, weight)) {
    const at::Tensor each = weight_gradients(gradient, x, weight, groups);
    at::Tensor memory = sum.memory;
    sum.add ? memory.add_(each) : memory.copy_(each);
  } else {
    transposed_products_into(
        sum.memory,
        gradient,
        x,
        groups,
        sum.add ? Into::add : Into::overwrite);
  }
  wanted->arrived();
  return {};
}

} // namespace

bool are_for_one_kernel(const at::Tensor& x, const at::Tensor& weight) {
  return suits_one_kernel(x.scalar_type(), weight.scalar_type(), weight);
}

bool will_be_for_one_kernel(const at::Tensor& x, const at::Tensor& weight) {
  return suits_one_kernel(compute_type_of(x), compute_type_of(weight), weight);
}

at::Tensor group_products(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    const RowGroups& groups) {
  // ZeRO-3 brings the weights there when it sees them.
  const std::array<c10::IValue, 3> inputs{x, weight, bias};
  RECORD_FUNCTION("cairn::grouped_product", inputs);
  if (has_own_products(x, weight) &&
      (!bias.defined() || bias.scalar_type() == x.scalar_type())) {
    return own_products(x, weight, bias, groups);
  }
  at::Tensor result = are_for_one_kernel(x, weight)
      ? at::_grouped_mm(
            for_kernel(x),
            for_kernel(weight).transpose(1, 2),
            groups.ends)
      : looped_products(x, weight.transpose(1, 2), groups);
  if (bias.defined()) {
    add_group_biases(result, bias, groups);
  }
  return result;
}

at::Tensor input_gradients(
    const at::Tensor& gradient,
    const at::Tensor& weight,
    const RowGroups& groups) {
  const std::array<c10::IValue, 2> inputs{gradient, weight};
  RECORD_FUNCTION("cairn::grouped_product", inputs);
  if (has_own_products(gradient, weight)) {
    return own_input_gradients(gradient, weight, groups);
  }
  return are_for_one_kernel(gradient, weight)
      ? at::_grouped_mm(for_kernel(gradient), for_kernel(weight), groups.ends)
      : looped_products(gradient, weight, groups);
}

GroupGelu group_products_gelu(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    GeluKind kind,
    const RowGroups& groups) {
  if (!has_own_products(x, weight) ||
      (bias.defined() && bias.scalar_type() != x.scalar_type())) {
    const at::Tensor sums = group_products(x, weight, at::Tensor(), groups);
    return {sums, group_gelu(sums, bias, kind, groups)};
  }
  const std::array<c10::IValue, 3> inputs{x, weight, bias};
  RECORD_FUNCTION("cairn::grouped_product", inputs);
  return own_products_gelu(x, weight, bias, kind, groups);
}

GroupGeluGradients group_gelu_gradients(
    const at::Tensor& gradient,
    const at::Tensor& weight,
    const at::Tensor& sums,
    GeluKind kind,
    const RowGroups& groups) {
  if (!has_own_products(gradient, weight)) {
    const at::Tensor wide = input_gradients(gradient, weight, groups);
    const at::Tensor of_bias = group_gelu_backward(wide, sums, kind, groups);
    return {wide, of_bias};
  }
  const std::array<c10::IValue, 2> inputs{gradient, weight};
  RECORD_FUNCTION("cairn::grouped_product", inputs);
  return own_gelu_gradients(gradient, weight, sums, kind, groups);
}

at::Tensor weight_gradients_or_later(
    const std::shared_ptr<DeferredGradients>& later,
    const at::Tensor& weight,
    const at::Tensor& gradient,
    const at::Tensor& x,
    const RowGroups& groups) {
  if (!later || !DeferredGradients::takes(weight)) {
    return weight_gradients_or_none(gradient, x, weight, groups);
  }
  const at::Tensor like = weight.detach(); // for its shape and type
  later->add({weight}, [gradient, x, like, groups] {
    return std::vector{weight_gradients(gradient, x, like, groups)};
  });
  return {};
}

} // namespace cairn::nn
