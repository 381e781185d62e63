#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace cairn::testing {

/// Counts the bytes of CPU tensors for as long as it lives.
class CountingAllocator final : public c10::Allocator {
 public:
  CountingAllocator() : inner_(c10::GetCPUAllocator()) {
    // A higher priority than the default's, or the call is passed over.
    c10::SetCPUAllocator(this, 1);
  }
  ~CountingAllocator() override { c10::SetCPUAllocator(inner_, 1); }
  CountingAllocator(const CountingAllocator&) = delete;
  CountingAllocator& operator=(const CountingAllocator&) = delete;

  std::size_t live() const { return *live_; }
  std::size_t peak() const { return peak_; }
  void reset_peak() { peak_ = live(); }

  c10::DataPtr allocate(std::size_t bytes) override {
    *live_ += bytes;
    peak_ = std::max(peak_, live());
    // The size is in front of the data, since their deleter gets only their
    // address; the block may outlive this object.
    auto* memory = static_cast<std::byte*>(
        std::aligned_alloc(in_front, in_front + round_up(bytes)));
    new (memory) Block{live_, bytes};
    void* data = memory + in_front;
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  using Counter = std::shared_ptr<std::atomic<std::size_t>>;
  struct Block {
    Counter live;
    std::size_t bytes;
  };
  static constexpr std::size_t in_front = 64;

  static std::size_t round_up(std::size_t bytes) {
    return (bytes + in_front - 1) / in_front * in_front;
  }

  static void release(void* data) {
    std::byte* memory = static_cast<std::byte*>(data) - in_front;
    auto* block = reinterpret_cast<Block*>(memory);
    *block->live -= block->bytes;
    block->~Block();
    std::free(memory);
  }

  c10::Allocator* inner_;
  Counter live_ = std::make_shared<std::atomic<std::size_t>>(0);
  std::size_t peak_ = 0;
};

} // namespace cairn::testing
