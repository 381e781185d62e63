#pragma once

#include "kernels/internal/cuda/cuda.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <cairn/base/error.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace cairn::zero {

/// Copies bytes to a GPU's memory, after the work that its current stream has
/// so far. The host does not wait: libtorch hands the page-locked memory out
/// again when the copy is over.
inline void send_bytes(
    const void* from,
    std::size_t bytes,
    const at::Tensor& to) {
  const at::Tensor staged = at::empty(
      {static_cast<std::int64_t>(bytes)},
      at::TensorOptions().dtype(at::kByte).pinned_memory(true));
  std::memcpy(staged.data_ptr(), from, bytes);
  to.narrow(0, 0, staged.numel()).copy_(staged, /*non_blocking=*/true);
}

/// Rows in the memory of a GPU, which are written again only when they have
/// changed. Work that was recorded before must not be repeated then.
template <class Row>
class DeviceTable {
 public:
  /// Writes `rows` unless same(a, b) of all rows says that they are there, and
  /// returns their place in the GPU's memory.
  template <class Same>
  const Row* write(std::vector<Row> rows, at::Device device, const Same& same) {
    if (memory_.defined() && std::ranges::equal(rows, rows_, same)) {
      return place();
    }
    if (kernels::cuda::is_recording(device.index())) {
      throw InternalError(
          {.what = "memory has moved since the work before that is recorded "
                   "now"});
    }
    rows_ = std::move(rows);
    const std::size_t bytes = rows_.size() * sizeof(Row);
    memory_ = at::empty(
        {static_cast<std::int64_t>(std::max<std::size_t>(bytes, 1))},
        at::TensorOptions(device).dtype(at::kByte));
    send_bytes(rows_.data(), bytes, memory_);
    return place();
  }

 private:
  const Row* place() const {
    return static_cast<const Row*>(memory_.const_data_ptr());
  }

  std::vector<Row> rows_;
  at::Tensor memory_;
};

} // namespace cairn::zero
