#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::monitor {

template <typename T>
void append_little_endian(std::string& text, T value) {
  for (unsigned shift = 0; shift < 8 * sizeof(T); shift += 8) {
    text += static_cast<char>(value >> shift & 0xff);
  }
}

/// Writes the fields of a protocol buffer message. The caller leaves out
/// numbers that are zero, as proto3 does.
///
/// (protozero would do the same. TensorBoard's events need five kinds of
/// fields, which is less code than the entries of one more dependency in every
/// place that lists dependencies.)
class ProtoMessage {
 public:
  ProtoMessage& varint(std::uint32_t number, std::uint64_t value) {
    put_varint(std::uint64_t{number} << 3);
    put_varint(value);
    return *this;
  }
  ProtoMessage& fixed(std::uint32_t number, double value) {
    put_varint(std::uint64_t{number} << 3 | 1);
    append_little_endian(text_, std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& fixed(std::uint32_t number, float value) {
    put_varint(std::uint64_t{number} << 3 | 5);
    append_little_endian(text_, std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  ProtoMessage& bytes(std::uint32_t number, std::string_view value) {
    put_varint(std::uint64_t{number} << 3 | 2);
    put_varint(value.size());
    text_ += value;
    return *this;
  }
  ProtoMessage& message(std::uint32_t number, const ProtoMessage& value) {
    return bytes(number, value.text_);
  }

  const std::string& text() const noexcept { return text_; }

 private:
  void put_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      text_ += static_cast<char>(value | 0x80);
    }
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

} // namespace cairn::monitor
