#include <cairn/checkpoints/lazy_tensor.h>

#include <c10/util/accumulate.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cairn::checkpoints {

namespace {

/// Bytes in memory at a time, beside the tensor that is read.
constexpr std::int64_t portion_bytes = 16 << 20;

void check_announced(
    at::ScalarType type,
    const std::vector<std::int64_t>& shape,
    const at::Tensor& loaded) {
  if (!loaded.is_cpu() || loaded.scalar_type() != type ||
      loaded.sizes() != at::IntArrayRef(shape)) {
    throw CheckpointError(
        {.what = "a tensor was announced as another",
         .values = fmt::format(
             "{} [{}], loaded {} [{}]",
             c10::toString(type),
             fmt::join(shape, ", "),
             c10::toString(loaded.scalar_type()),
             fmt::join(loaded.sizes(), ", "))});
  }
}

} // namespace

LazyTensor::LazyTensor(
    at::ScalarType element_type,
    std::vector<std::int64_t> sizes,
    std::function<at::Tensor()> load_whole)
    : type(element_type), shape(std::move(sizes)) {
  open = [type = type, shape = shape, load = std::move(load_whole)]() -> Rows {
    at::Tensor whole = load();
    check_announced(type, shape, whole);
    return [whole = std::move(whole)](std::int64_t begin, std::int64_t end) {
      return whole.dim() == 0 ? whole : whole.narrow(0, begin, end - begin);
    };
  };
}

std::int64_t LazyTensor::row_elements() const {
  return shape.empty() ? 1
                       : c10::multiply_integers(shape.begin() + 1, shape.end());
}

void LazyTensor::stream(
    const std::function<void(std::span<const std::byte>)>& take) const {
  const std::int64_t row_bytes =
      row_elements() * static_cast<std::int64_t>(c10::elementSize(type));
  const std::int64_t count = std::max<std::int64_t>(
      1,
      portion_bytes / std::max<std::int64_t>(1, row_bytes));
  const Rows read = open();
  for (std::int64_t begin = 0; begin < rows(); begin += count) {
    const at::Tensor portion =
        read(begin, std::min(begin + count, rows())).contiguous();
    take(
        {static_cast<const std::byte*>(portion.const_data_ptr()),
         portion.nbytes()});
  }
}

} // namespace cairn::checkpoints
