#include "checkpoint/lazy_operations.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace cairn::checkpoints {

namespace {

std::size_t index(std::int64_t dim) {
  return static_cast<std::size_t>(dim);
}

/// The shape with `rows` in two dimensions: [groups, rows of each, …].
std::vector<std::int64_t> grouped(
    std::vector<std::int64_t> shape,
    std::int64_t groups) {
  shape[0] /= groups;
  shape.insert(shape.begin(), groups);
  return shape;
}

} // namespace

LazyTensor transposed(LazyTensor tensor) {
  if (tensor.shape.size() != 2) {
    return tensor;
  }
  std::swap(tensor.shape[0], tensor.shape[1]);
  tensor.load = [load = std::move(tensor.load)] {
    return load().t().contiguous();
  };
  return tensor;
}

LazyTensor sliced(
    LazyTensor tensor,
    std::int64_t dim,
    std::int64_t begin,
    std::int64_t end) {
  if (begin == 0 && end == tensor.shape[index(dim)]) {
    return tensor;
  }
  tensor.shape[index(dim)] = end - begin;
  tensor.load = [load = std::move(tensor.load), dim, begin, end] {
    return load().narrow(dim, begin, end - begin);
  };
  return tensor;
}

LazyTensor rows_repeating_last(
    LazyTensor tensor,
    std::int64_t begin,
    std::int64_t end) {
  const std::int64_t rows = tensor.shape[0];
  if (end <= rows) {
    return sliced(std::move(tensor), 0, begin, end);
  }
  tensor.shape[0] = end - begin;
  tensor.load = [load = std::move(tensor.load),
                 shape = tensor.shape,
                 rows,
                 begin] {
    const at::Tensor all = load();
    at::Tensor part = at::empty(shape, all.options());
    const std::int64_t there = std::clamp(rows - begin, {}, shape[0]);
    part.narrow(0, 0, there).copy_(all.narrow(0, std::min(begin, rows), there));
    part.narrow(0, there, shape[0] - there)
        .copy_(all.narrow(0, rows - 1, 1)
                   .expand_as(part.narrow(0, there, shape[0] - there)));
    return part;
  };
  return tensor;
}

LazyTensor joined(std::vector<LazyTensor> parts, std::int64_t dim) {
  if (parts.size() == 1) {
    return std::move(parts.front());
  }
  LazyTensor whole{parts.front().type, parts.front().shape, {}};
  whole.shape[index(dim)] = 0;
  for (const LazyTensor& part : parts) {
    whole.shape[index(dim)] += part.shape[index(dim)];
  }
  whole.load =
      [type = whole.type, shape = whole.shape, parts = std::move(parts), dim] {
        at::Tensor result = at::empty(shape, type);
        std::int64_t at = 0;
        for (const LazyTensor& part : parts) { // one part at a time in memory
          const std::int64_t size = part.shape[index(dim)];
          result.narrow(dim, at, size).copy_(part.load());
          at += size;
        }
        return result;
      };
  return whole;
}

LazyTensor interleaved(std::vector<LazyTensor> parts, std::int64_t groups) {
  LazyTensor whole{parts.front().type, parts.front().shape, {}};
  whole.shape[0] = 0;
  for (const LazyTensor& part : parts) {
    whole.shape[0] += part.shape[0];
  }
  whole.load = [type = whole.type,
                shape = whole.shape,
                parts = std::move(parts),
                groups] {
    at::Tensor result = at::empty(shape, type);
    at::Tensor view = result.view(grouped(shape, groups));
    std::int64_t at = 0;
    for (const LazyTensor& part : parts) {
      const std::int64_t size = part.shape[0] / groups;
      view.narrow(1, at, size)
          .copy_(part.load().reshape(grouped(part.shape, groups)));
      at += size;
    }
    return result;
  };
  return whole;
}

LazyTensor deinterleaved(
    LazyTensor tensor,
    std::int64_t groups,
    std::vector<std::int64_t> parts,
    std::size_t index) {
  const auto place = static_cast<std::ptrdiff_t>(index);
  const std::int64_t begin =
      std::accumulate(parts.begin(), parts.begin() + place, std::int64_t{0});
  const std::int64_t size = parts[index];
  const std::vector<std::int64_t> view = grouped(tensor.shape, groups);
  tensor.shape[0] = groups * size;
  tensor.load =
      [load = std::move(tensor.load), view, shape = tensor.shape, begin, size] {
        return load().reshape(view).narrow(1, begin, size).reshape(shape);
      };
  return tensor;
}

} // namespace cairn::checkpoints
