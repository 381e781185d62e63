#include "checkpoint/head_rows.h"

#include "checkpoint/lazy_operations.h"

#include <ATen/Functions.h>

#include <utility>

namespace cairn::checkpoints {

namespace {

/// [groups, rows, …] of every part, in a tensor of either order.
struct Views {
  std::vector<at::Tensor> apart;
  std::vector<at::Tensor> together;
};

Views views(
    const at::Tensor& apart,
    const at::Tensor& together,
    const std::vector<std::int64_t>& rows,
    std::int64_t groups) {
  const auto grouped = [&](const at::Tensor& tensor) {
    std::vector<std::int64_t> shape = tensor.sizes().vec();
    shape[0] /= groups;
    shape.insert(shape.begin(), groups);
    return tensor.view(shape);
  };
  Views result;
  std::int64_t at = 0;
  for (const std::int64_t count : rows) {
    result.apart.push_back(
        grouped(apart.narrow(0, at * groups, count * groups)));
    result.together.push_back(grouped(together).narrow(1, at, count));
    at += count;
  }
  return result;
}

} // namespace

std::vector<std::int64_t> query_key_value_rows(const ModelDescription& d) {
  return {d.heads / d.key_value_heads * d.head_size, d.head_size, d.head_size};
}

std::vector<std::int64_t> key_value_rows(const ModelDescription& d) {
  return {d.head_size, d.head_size};
}

LazyTensor heads_together(
    LazyTensor tensor,
    const std::vector<std::int64_t>& rows,
    std::int64_t groups) {
  tensor.load = [load = std::move(tensor.load), rows, groups] {
    const at::Tensor apart = load().contiguous();
    at::Tensor together = at::empty_like(apart);
    const Views parts = views(apart, together, rows, groups);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      parts.together[i].copy_(parts.apart[i]);
    }
    return together;
  };
  return tensor;
}

LazyTensor heads_apart(
    LazyTensor tensor,
    const std::vector<std::int64_t>& rows,
    std::int64_t groups) {
  tensor.load = [load = std::move(tensor.load), rows, groups] {
    const at::Tensor together = load().contiguous();
    at::Tensor apart = at::empty_like(together);
    const Views parts = views(apart, together, rows, groups);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      parts.apart[i].copy_(parts.together[i]);
    }
    return apart;
  };
  return tensor;
}

LazyTensor heads_from_turns(
    LazyTensor tensor,
    std::int64_t parts,
    std::int64_t head_size) {
  std::vector<std::int64_t> shape = tensor.shape;
  shape[0] /= parts * head_size;
  shape.insert(shape.begin() + 1, {head_size, parts});
  tensor.load = [load = std::move(tensor.load), whole = tensor.shape, shape] {
    return load().reshape(shape).transpose(1, 2).reshape(whole);
  };
  return tensor;
}

} // namespace cairn::checkpoints
