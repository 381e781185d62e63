#include "checkpoints/internal/lazy_source.h"

#include <c10/util/accumulate.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace cairn::checkpoints {

namespace {

/// Bytes of whole rows that are read at a time.
constexpr std::int64_t most_at_once = 16 << 20;

/// The box, or the whole tensor; a number without dimensions is one row of one
/// element.
Box whole_box(const Box& box, const std::vector<std::int64_t>& shape) {
  if (!box.empty()) {
    return box;
  }
  return {std::vector<std::int64_t>(shape.size()), shape};
}

void check_within(
    const Box& box,
    const std::vector<std::int64_t>& shape,
    const SliceToRead& slice) {
  bool fits = box.begin.size() == shape.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    fits = box.begin[d] >= 0 && box.size[d] >= 0 &&
        box.begin[d] + box.size[d] <= shape[d];
  }
  if (!fits || slice.begin < 0 ||
      slice.begin + slice.into.numel() > c10::multiply_integers(box.size)) {
    throw CheckpointError(
        {.what = "the saved tensor is smaller than the part that is wanted",
         .values = fmt::format(
             "{} has shape [{}]",
             slice.name,
             fmt::join(shape, ", "))});
  }
}

/// Reads a slice row by row of its box.
void read_slice(const LazyTensor& tensor, const SliceToRead& slice) {
  const Box box = whole_box(slice.box, tensor.shape);
  check_within(box, tensor.shape, slice);
  if (slice.into.numel() == 0) {
    return;
  }
  at::Tensor into = slice.into;
  const LazyTensor::Rows rows = tensor.open();
  if (tensor.shape.empty()) {
    into.copy_(rows(0, 1).reshape({1}));
    return;
  }
  const std::int64_t in_row =
      c10::multiply_integers(box.size.begin() + 1, box.size.end());
  const std::int64_t row_bytes = tensor.row_elements() *
      static_cast<std::int64_t>(c10::elementSize(tensor.type));
  const std::int64_t most =
      std::max<std::int64_t>(1, most_at_once / std::max(row_bytes, in_row));
  const std::int64_t end = slice.begin + into.numel();
  for (std::int64_t at = slice.begin; at < end;) {
    const std::int64_t row = at / in_row;
    const std::int64_t last = std::min((end - 1) / in_row + 1, row + most);
    at::Tensor part = rows(box.begin[0] + row, box.begin[0] + last);
    for (std::size_t d = 1; d < box.size.size(); ++d) {
      part =
          part.narrow(static_cast<std::int64_t>(d), box.begin[d], box.size[d]);
    }
    const std::int64_t next = std::min(end, last * in_row);
    into.narrow(0, at - slice.begin, next - at)
        .copy_(part.reshape({-1}).narrow(0, at - row * in_row, next - at));
    at = next;
  }
}

} // namespace

LazySource::LazySource(NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) {
    tensors_.emplace(name, std::move(tensor));
  }
}

const LazyTensor& LazySource::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw CheckpointError(
        {.what = "the checkpoint has no such tensor", .values = name});
  }
  return found->second;
}

bool LazySource::contains(const std::string& name) const {
  return tensors_.contains(name);
}

std::vector<std::int64_t> LazySource::shape(const std::string& name) const {
  return at(name).shape;
}

at::ScalarType LazySource::type(const std::string& name) const {
  return at(name).type;
}

void LazySource::read(const std::vector<SliceToRead>& slices) const {
  for (const SliceToRead& slice : slices) {
    read_slice(at(slice.name), slice);
  }
}

} // namespace cairn::checkpoints
