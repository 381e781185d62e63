#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cairn::kernels {

/// Calls body(begin, end) on parts that together cover [0, count), on the
/// threads of libtorch's own operators. These are at::get_num_threads()
/// threads, and no others spin beside them after the last operator.
///
/// (at::parallel_for does this only in code compiled with OpenMP, which would
/// bring a second runtime where libtorch has its own.)
template <typename Body>
void in_parallel(std::int64_t count, const Body& body) {
  if (count <= 1) {
    if (count == 1) {
      body(std::int64_t{0}, std::int64_t{1});
    }
    return;
  }
  // An operator on `count` bytes, of which only the addresses are used.
  const at::Tensor numbers = at::detail::empty_cpu({count}, at::kByte);
  const auto* first = static_cast<const char*>(numbers.const_data_ptr());
  at::TensorIteratorConfig()
      .add_output(numbers)
      .add_const_input(numbers) // sets the output's type and shape
      .set_check_mem_overlap(false)
      .build()
      .for_each(
          [&](char** at, const std::int64_t*, std::int64_t size, std::int64_t) {
            const std::int64_t begin = at[0] - first;
            body(begin, begin + size);
          },
          1);
}

} // namespace cairn::kernels
