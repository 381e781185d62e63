#pragma once

#include <cairn/data/indexed_dataset.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace cairn::data {

/// Walks over the bytes of an .idx file. Throws DataError for anything that it
/// cannot find there.
class IndexCursor {
 public:
  IndexCursor(std::span<const std::byte> bytes, std::filesystem::path file);

  std::size_t left() const noexcept { return bytes_.size() - position_; }
  void skip(std::size_t count) noexcept { position_ += count; }

  template <typename T>
  T take() {
    expect_room(1, sizeof(T), "its header");
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  template <typename T>
  PackedArray<T> array(std::uint64_t count, std::string_view name) {
    expect_room(count, sizeof(T), name);
    const auto size = static_cast<std::size_t>(count);
    const PackedArray<T> array(bytes_.data() + position_, size);
    position_ += size * sizeof(T);
    return array;
  }

  void expect_room(std::uint64_t count, std::size_t each, std::string_view name)
      const;
  void expect_version();
  void expect_end() const;
  TokenType token_type(std::uint64_t code) const;
  void expect_token_size(TokenType type, std::uint64_t size) const;

  [[noreturn]] void refuse(std::string what, std::string values = {}) const;
  [[noreturn]] void refuse_sequence(
      std::size_t sequence,
      std::int64_t offset,
      std::int64_t length,
      std::size_t token_size,
      std::uint64_t size) const;
  [[noreturn]] void refuse_size(std::uint64_t described, std::uint64_t size)
      const;

 private:
  std::span<const std::byte> bytes_;
  std::filesystem::path file_;
  std::size_t position_ = 0;
};

} // namespace cairn::data
