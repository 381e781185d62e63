#include "zero/internal/host_memory.h"

#include "zero/tiers/page_lock.h"

#include <ATen/ops/from_blob.h>
#include <cairn/io/aligned_buffer.h>

#include <memory>
#include <span>
#include <utility>

namespace cairn::zero {

namespace {

class HostBlock {
 public:
  HostBlock(std::size_t bytes, bool pin) : buffer_(bytes), pinned_(pin) {
    if (pinned_) {
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
