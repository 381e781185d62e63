#include "checkpoints/tensors/tensor_bytes.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <cstring>

namespace cairn::checkpoints {

namespace {

/// Number of elements from the first to the last, both included.
std::int64_t extent(const StoredTensor& place) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < place.sizes.size(); ++d) {
    if (place.sizes[d] == 0) {
      return 0;
    }
    std::int64_t step = 0;
    if (__builtin_mul_overflow(place.sizes[d] - 1, place.strides[d], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return -1;
    }
  }
  return last + 1;
}

bool counts(const StoredTensor& place) {
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < place.sizes.size(); ++d) {
    if (place.sizes[d] < 0 || place.strides[d] < 0 ||
        (place.sizes[d] > 0 &&
         __builtin_mul_overflow(elements, place.sizes[d], &elements))) {
      return false;
    }
  }
  return place.offset >= 0;
}

/// True when the tensor has elements twice: a few bytes could stand for any
/// number of gigabytes.
bool repeats(const StoredTensor& place, std::int64_t available) {
  bool still = false; // along a dimension
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < place.sizes.size(); ++d) {
    still = still || (place.strides[d] == 0 && place.sizes[d] > 1);
    elements *= place.sizes[d]; // counts() has seen that it does not overflow
  }
  return elements > 0 && (still || elements > available);
}

} // namespace

void check(const TensorBytes& tensor) {
  const StoredTensor& place = tensor.place;
  const auto available = static_cast<std::int64_t>(
      tensor.storage.size() / c10::elementSize(place.type));
  const bool sane = place.sizes.size() == place.strides.size() &&
      place.sizes.size() <= 64 && counts(place);
  const std::int64_t needed = sane ? extent(place) : -1;
  if (needed < 0 || (needed > 0 && needed > available - place.offset)) {
    throw CheckpointError(
        {.what = "a tensor reaches beyond its storage",
         .where = fmt::format("storage {}", place.storage),
         .values = fmt::format(
             "sizes [{}], strides [{}], offset {}, {} elements stored",
             fmt::join(place.sizes, ", "),
             fmt::join(place.strides, ", "),
             place.offset,
             available)});
  }
  if (repeats(place, available)) {
    throw CheckpointError(
        {.what = "a tensor shows elements of its storage more than once",
         .where = fmt::format("storage {}", place.storage),
         .values = fmt::format(
             "sizes [{}], strides [{}], {} elements stored",
             fmt::join(place.sizes, ", "),
             fmt::join(place.strides, ", "),
             available),
         .remedy = "save tensor.contiguous() instead of an expanded view"});
  }
}

at::Tensor load(const TensorBytes& tensor) {
  const StoredTensor& place = tensor.place;
  const std::int64_t elements = extent(place);
  const at::Tensor copy = at::empty({elements}, place.type);
  const auto width = static_cast<std::int64_t>(c10::elementSize(place.type));
  if (elements > 0) {
    std::memcpy(
        copy.data_ptr(),
        tensor.storage.data() + place.offset * width,
        static_cast<std::size_t>(elements * width));
  }
  return copy.as_strided(place.sizes, place.strides);
}

at::Tensor borrowed(const TensorBytes& tensor) {
  const StoredTensor& place = tensor.place;
  const std::size_t width = c10::elementSize(place.type);
  const std::byte* const first =
      tensor.storage.data() + static_cast<std::size_t>(place.offset) * width;
  if (extent(place) == 0 ||
      reinterpret_cast<std::uintptr_t>(first) % width != 0) {
    return load(tensor);
  }
  return at::from_blob(
      const_cast<std::byte*>(first),
      place.sizes,
      place.strides,
      [owner = tensor.owner](void*) {},
      at::TensorOptions(place.type));
}

at::Tensor load(const MadeTensor& tensor) {
  if (tensor.tensor.defined()) {
    return tensor.tensor.clone();
  }
  const StoredTensor& place = tensor.place;
  if (tensor.pieces.size() == 1 && tensor.pieces[0].shape == place.sizes) {
    return tensor.pieces[0].load();
  }
  at::Tensor whole = at::empty(place.sizes, place.type);
  std::int64_t begin = 0;
  for (const LazyTensor& lazy : tensor.pieces) {
    const at::Tensor piece = lazy.load();
    whole.narrow(0, begin, piece.numel()).copy_(piece.reshape({-1}));
    begin += piece.numel();
  }
  return whole;
}

} // namespace cairn::checkpoints
