#include "monitor/measures/operator_flops.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <numeric>

namespace cairn::monitor {
namespace {

using Shape = std::vector<std::int64_t>;

std::uint64_t size_of(const Shape& shape) {
  return std::accumulate(
      shape.begin(),
      shape.end(),
      std::uint64_t{1},
      [](std::uint64_t product, std::int64_t size) {
        return product * static_cast<std::uint64_t>(size);
      });
}

/// [..., rows, k] times [..., k, columns]
std::uint64_t product(const Shape& left, const Shape& right) {
  return left.size() < 2 || right.size() < 2
      ? 0
      : 2 * size_of(left) * static_cast<std::uint64_t>(right.back());
}

/// Rows [n, in or out] with one of the weights [experts, out, in] each.
std::uint64_t grouped_product(const Shape& rows, const Shape& weight) {
  return rows.size() != 2 || weight.size() != 3
      ? 0
      : 2 * static_cast<std::uint64_t>(rows[0]) *
          static_cast<std::uint64_t>(weight[1] * weight[2]);
}

/// `products` products of queries and keys, whose tokens are in the dimension
/// `tokens` of four.
std::uint64_t attention(
    const Shape& query,
    const Shape& key,
    std::uint64_t products,
    std::size_t tokens) {
  return query.size() != 4 || key.size() != 4
      ? 0
      : products * 2 * size_of(query) * static_cast<std::uint64_t>(key[tokens]);
}

/// The gradients of input and weight [out, in / groups, …], from the gradient
/// of the output [batch, out, …].
std::uint64_t convolution_gradients(const Shape& output, const Shape& weight) {
  if (output.size() < 3 || weight.size() != output.size()) {
    return 0;
  }
  std::uint64_t window = 1;
  for (std::size_t dim = 1; dim < weight.size(); ++dim) {
    window *= static_cast<std::uint64_t>(weight[dim]);
  }
  return 2 * 2 * size_of(output) * window;
}

enum class Kind {
  product,
  grouped,
  attention,
  attention_backward,
  convolution_backward
};

struct Row {
  std::string_view name;
  Kind kind;
  std::size_t first;      ///< the input that is the left factor, or the query
  std::size_t tokens = 2; ///< the dimension of keys that counts them
};

constexpr std::array rows{
    Row{"aten::addmm_", Kind::product, 1},
    Row{"aten::baddbmm_", Kind::product, 1},
    Row{"aten::_scaled_mm", Kind::product, 0},
    Row{"cairn::product", Kind::product, 0},
    Row{"cairn::product_gelu", Kind::product, 0},
    Row{"cairn::product_gelu_gradient", Kind::product, 0},
    Row{"cairn::product_into", Kind::product, 1},
    Row{"cairn::fp8_product", Kind::product, 0},
    Row{"cairn::fp8_product_into", Kind::product, 1},
    Row{"cairn::grouped_product", Kind::grouped, 0},
    Row{"aten::_scaled_dot_product_flash_attention", Kind::attention, 0},
    Row{"aten::_scaled_dot_product_flash_attention_for_cpu",
        Kind::attention,
        0},
    Row{"aten::_scaled_dot_product_efficient_attention", Kind::attention, 0},
    Row{"aten::_scaled_dot_product_cudnn_attention", Kind::attention, 0},
    Row{"aten::_scaled_dot_product_flash_attention_backward",
        Kind::attention_backward,
        1},
    Row{"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        Kind::attention_backward,
        1},
    Row{"aten::_scaled_dot_product_efficient_attention_backward",
        Kind::attention_backward,
        1},
    Row{"aten::_scaled_dot_product_cudnn_attention_backward",
        Kind::attention_backward,
        1},
    Row{"cairn::attention", Kind::attention, 0, 1},
    Row{"cairn::attention_backward", Kind::attention_backward, 0, 1},
    Row{"aten::convolution_backward", Kind::convolution_backward, 0}};

/// Those that libtorch's profiler counts itself.
constexpr std::array<std::string_view, 5> counted_by_libtorch{
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::baddbmm",
    "aten::conv2d"};

} // namespace

std::uint64_t operator_flops(
    std::string_view name,
    const std::vector<std::vector<std::int64_t>>& shapes) {
  for (const Row& row : rows) {
    if (row.name != name || shapes.size() < row.first + 2) {
      continue;
    }
    const Shape& left = shapes[row.first];
    const Shape& right = shapes[row.first + 1];
    switch (row.kind) {
      case Kind::product:
        return product(left, right);
      case Kind::grouped:
        return grouped_product(left, right);
      case Kind::attention:
        return attention(left, right, 2, row.tokens);
      case Kind::attention_backward: // scores again, and four gradients
        return attention(left, right, 5, row.tokens);
      case Kind::convolution_backward: // the weight is the third input
        return shapes.size() < 3 ? 0 : convolution_gradients(left, shapes[2]);
    }
  }
  return 0;
}

bool is_product(std::string_view name) {
  return std::ranges::find(rows, name, &Row::name) != rows.end() ||
      std::ranges::find(counted_by_libtorch, name) != counted_by_libtorch.end();
}

} // namespace cairn::monitor
