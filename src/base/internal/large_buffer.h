#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace cairn::inline base {

/// Memory on huge pages where the system grants them. Two uses: arrays that are
/// accessed at random (with small pages, finding a page costs as much as the
/// access) and data that goes straight to a disk (which then gets few long
/// stretches). The content is zero at first. The memory is released when the
/// last copy goes.
class LargeBuffer {
 public:
  explicit LargeBuffer(std::size_t size);

  /// Returns the memory beyond `size` to the system; all copies share it.
  void shrink(std::size_t size);

  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(memory_.get()), size_ / sizeof(T)};
  }
  std::shared_ptr<const void> owner() const { return memory_; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t size_ = 0;
};

} // namespace cairn::base
