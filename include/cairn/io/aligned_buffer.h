#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

namespace cairn::io {

/// Alignment of memory addresses, file offsets and sizes for transfers straight
/// between disk and memory. Every disk accepts 4096, also those that would
/// accept 512.
inline constexpr std::size_t direct_alignment = 4096;

constexpr std::uint64_t round_up_to_alignment(std::uint64_t bytes) {
  return (bytes + direct_alignment - 1) / direct_alignment * direct_alignment;
}

/// Memory for direct transfers. Its size is the one asked for; the allocation
/// extends to the next multiple of the alignment. Not cleared.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t bytes)
      : data_(static_cast<std::byte*>(::operator new (
            round_up_to_alignment(bytes),
            std::align_val_t{direct_alignment}))),
        size_(bytes) {}

  std::byte* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  std::span<std::byte> bytes() const noexcept { return {data(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept {
      ::operator delete (data, std::align_val_t{direct_alignment});
    }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

} // namespace cairn::io
