#include "zero/internal/host_memory.h"

#include "kernels/internal/in_parallel.h"
#include "zero/tiers/page_lock.h"

#include <ATen/ops/from_blob.h>
#include <cairn/io/aligned_buffer.h>

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace cairn::zero {

namespace {

/// Has the system provide the memory's pages, by many threads: page-locking
/// would ask for one after the other, which takes several times as long.
void touch(std::span<std::byte> memory) {
  constexpr std::size_t part = std::size_t{2} << 20;
  madvise(memory.data(), memory.size(), MADV_HUGEPAGE); // fewer of them
  const std::size_t parts = (memory.size() + part - 1) / part;
  kernels::in_parallel(
      static_cast<std::int64_t>(parts),
      [&](std::int64_t begin, std::int64_t end) {
        const auto from = static_cast<std::size_t>(begin) * part;
        const auto to =
            std::min(static_cast<std::size_t>(end) * part, memory.size());
        std::memset(memory.data() + from, 0, to - from);
      });
}

class HostBlock {
 public:
  HostBlock(std::size_t bytes, bool pin) : buffer_(bytes), pinned_(pin) {
    if (pinned_) {
      touch(buffer_.bytes());
      page_lock(buffer_.bytes());
    }
  }
  ~HostBlock() {
    if (pinned_) {
      page_unlock(buffer_.bytes());
    }
  }
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;

  void* data() const { return buffer_.data(); }

 private:
  io::AlignedBuffer buffer_;
  bool pinned_;
};

} // namespace

at::Tensor host_memory(std::int64_t elements, at::ScalarType type, bool pin) {
  auto block = std::make_shared<HostBlock>(
      static_cast<std::size_t>(elements) * c10::elementSize(type),
      pin);
  void* data = block->data();
  return at::from_blob(
      data,
      {elements},
      [block = std::move(block)](void*) {},
      at::TensorOptions(type));
}

} // namespace cairn::zero
