#include "distributed/backends/nccl_buffer_pool.h"

#include <ATen/Context.h>
#include <ATen/cuda/MemPool.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <exception>
#include <thread>
#include <utility>

namespace cairn::distributed {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

/// The allocator of ncclMemAlloc, which all groups have in common; null where
/// NCCL offers no such memory on this GPU, so that the pool has ordinary
/// memory.
std::shared_ptr<caching::CUDAAllocator> nccl_memory(
    c10d::ProcessGroupNCCL& group,
    c10::DeviceIndex device) {
  // The pool may be the first memory on the GPU.
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return group.supportsTensorAlloc(device)
      ? std::dynamic_pointer_cast<caching::CUDAAllocator>(
            group.getMemAllocator())
      : nullptr;
}

/// A pool of libtorch's caching allocator. c10d registers each piece of its
/// memory, now and later, with the groups.
class NcclBufferPool final : public BufferPool {
 public:
  NcclBufferPool(std::vector<NcclPtr> groups, c10::DeviceIndex device)
      : groups_(std::move(groups)),
        device_(device),
        pool_(nccl_memory(*groups_.front(), device)) {
    for (const NcclPtr& group : groups_) {
      group->registerMemPool(&pool_);
    }
  }

  /// NCCL forgets the memory before it goes.
  ~NcclBufferPool() override {
    for (const NcclPtr& group : groups_) {
      try {
        group->deregisterMemPool(&pool_);
      } catch (const std::exception&) {
        // The communicator was aborted, and has forgotten the memory with all
        // else.
      }
    }
  }

  void begin() override {
    caching::beginAllocateToPool(
        device_,
        pool_.id(),
        [self = std::this_thread::get_id()](cudaStream_t) {
          return std::this_thread::get_id() == self;
        });
  }

  void end() override {
    caching::endAllocateToPool(device_, pool_.id());
    caching::releasePool(device_, pool_.id());
  }

  std::int64_t bytes() const override {
    std::int64_t sum = 0;
    for (const auto& segment : caching::snapshot(pool_.id()).segments) {
      sum += static_cast<std::int64_t>(segment.total_size);
    }
    return sum;
  }

 private:
  std::vector<NcclPtr> groups_;
  c10::DeviceIndex device_;
  mutable at::cuda::MemPool pool_;
};

} // namespace

std::unique_ptr<BufferPool> nccl_buffer_pool(
    std::vector<NcclPtr> groups,
    c10::DeviceIndex device) {
  return std::make_unique<NcclBufferPool>(std::move(groups), device);
}

} // namespace cairn::distributed
