#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace cairn {

/// Memory on huge pages where the system grants them, for arrays that are
/// touched all over (with small pages, finding one costs as much as the access)
/// and for what goes straight to a disk (which then gets few long stretches).
/// Zero to begin with. Released when the last copy goes.
class LargeBuffer {
 public:
  explicit LargeBuffer(std::size_t size);

  /// Gives back what lies beyond `size`, for this copy and all others.
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

} // namespace cairn
