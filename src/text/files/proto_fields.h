#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cairn::text {

/// Reads the fields of a serialized protocol buffer message, in order.
class ProtoFields {
 public:
  explicit ProtoFields(std::string_view message) : rest_(message) {}

  struct Field {
    std::uint64_t number = 0;
    std::uint64_t value = 0;  ///< of a varint field
    std::string_view bytes{}; ///< of a string or message field
  };

  /// Reads the next field. False at the end, and before malformed bytes.
  bool next(Field& field) {
    std::uint64_t key = 0;
    if (!varint(key)) {
      return false;
    }
    field = {.number = key >> 3};
    switch (key & 7) {
      case 0:
        return varint(field.value);
      case 1:
        return take(8, field.bytes);
      case 2: {
        std::uint64_t size = 0;
        return varint(size) && take(size, field.bytes);
      }
      case 5:
        return take(4, field.bytes);
      default:
        return false;
    }
  }

 private:
  bool varint(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        return true;
      }
    }
    return false;
  }
  bool take(std::uint64_t size, std::string_view& bytes) {
    if (size > rest_.size()) {
      return false;
    }
    bytes = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(static_cast<std::size_t>(size));
    return true;
  }

  std::string_view rest_;
};

} // namespace cairn::text
