#include "zero/in_parallel.h"

#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>

namespace cairn::zero {

void in_parallel(
    std::int64_t count,
    const std::function<void(std::int64_t begin, std::int64_t end)>& body) {
  if (count <= 1) {
    if (count == 1) {
      body(0, 1);
    }
    return;
  }
  // An operator on `count` bytes, whose addresses are all that is wanted.
  const at::Tensor numbers = at::detail::empty_cpu({count}, at::kByte);
  const auto* first = static_cast<const char*>(numbers.const_data_ptr());
  at::TensorIteratorConfig().add_output(numbers).build().for_each(
      [&](char** at, const std::int64_t*, std::int64_t size, std::int64_t) {
        const std::int64_t begin = at[0] - first;
        body(begin, begin + size);
      },
      1);
}

} // namespace cairn::zero
