#include <cairn/base/error.h>
#include <cairn/data/tensor_batch.h>

#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>

#include <memory>
#include <utility>

namespace cairn::data {

HostAllocator pinned_allocator() {
  if (!at::globalContext().hasCUDA()) {
    throw ConfigError(
        {.what = "pinned memory needs a GPU, and none can be used here",
         .remedy = "see `cairn info`, or run without pinned memory"});
  }
  // libtorch treats no memory as pinned before the device is initialised.
  at::globalContext().lazyInitDevice(at::kCUDA);
  return [](std::size_t bytes) {
    // The allocator keeps a block until the copies from it are done, so the
    // block may be freed while a copy runs.
    auto block = std::make_shared<at::DataPtr>(
        at::getHostAllocator(at::kCUDA)->allocate(bytes));
    auto* const memory = static_cast<std::byte*>(block->get());
    return std::shared_ptr<std::byte>(std::move(block), memory);
  };
}

} // namespace cairn::data
