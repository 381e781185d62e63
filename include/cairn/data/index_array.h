#pragma once

#include <cairn/base/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::data {

enum class IndexType : std::uint8_t { int16, int32, uint32, int64, uint64 };

template <typename T>
constexpr IndexType index_type_of() {
  if constexpr (std::is_same_v<T, std::int16_t>) {
    return IndexType::int16;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return IndexType::int32;
  } else if constexpr (std::is_same_v<T, std::uint32_t>) {
    return IndexType::uint32;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return IndexType::int64;
  } else {
    static_assert(std::is_same_v<T, std::uint64_t>);
    return IndexType::uint64;
  }
}

std::size_t size_of(IndexType type);

/// A read-only array of integers, in memory or in a mapped file; copies share
/// it.
class IndexArray {
 public:
  IndexArray() = default;

  /// `values` must stay valid as long as `owner` lives.
  template <typename T>
  IndexArray(
      std::span<const T> values,
      std::vector<std::size_t> shape,
      std::shared_ptr<const void> owner)
      : IndexArray(
            index_type_of<T>(),
            std::as_bytes(values),
            std::move(shape),
            std::move(owner)) {}

  IndexArray(
      IndexType type,
      std::span<const std::byte> bytes,
      std::vector<std::size_t> shape,
      std::shared_ptr<const void> owner)
      : type_(type),
        bytes_(bytes),
        shape_(std::move(shape)),
        owner_(std::move(owner)) {}

  /// An array of one dimension that owns its values.
  template <typename T>
  static IndexArray of(std::vector<T> values) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    const std::span<const T> view(*owner);
    return IndexArray(view, {view.size()}, owner);
  }

  IndexType type() const noexcept { return type_; }
  const std::vector<std::size_t>& shape() const noexcept { return shape_; }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return bytes_.size() / size_of(type_); }

  /// The values; T must be the type of the array.
  template <typename T>
  std::span<const T> values() const {
    if (index_type_of<T>() != type_) {
      throw InternalError({.what = "an index array is read as another type"});
    }
    return {
        reinterpret_cast<const T*>(bytes_.data()),
        bytes_.size() / sizeof(T)};
  }

  /// The value at `index` as int64, whatever the type. The index is not
  /// checked, and a uint64 too large for int64 comes out negative.
  std::int64_t operator[](std::size_t index) const noexcept {
    switch (type_) {
      case IndexType::int16:
        return get<std::int16_t>(index);
      case IndexType::int32:
        return get<std::int32_t>(index);
      case IndexType::uint32:
        return get<std::uint32_t>(index);
      case IndexType::int64:
      case IndexType::uint64:
        break;
    }
    return get<std::int64_t>(index);
  }

  /// CRC-32C of type, shape and values; the same on every machine.
  std::uint32_t checksum() const;

 private:
  template <typename T>
  T get(std::size_t index) const noexcept {
    return reinterpret_cast<const T*>(bytes_.data())[index];
  }

  IndexType type_ = IndexType::int64;
  std::span<const std::byte> bytes_;
  std::vector<std::size_t> shape_{0};
  std::shared_ptr<const void> owner_;
};

} // namespace cairn::data
