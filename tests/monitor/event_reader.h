#pragma once

#include "base/internal/crc32c.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Reads event files without any code of the writer.

namespace cairn::monitor {

inline std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <typename T>
T integer_at(std::string_view bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<unsigned char>(bytes.at(at + i)))
        << (8 * i);
  }
  return value;
}

inline std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8U;
  return rotated << 15 | rotated >> 17;
}

/// The events of a file; fails the test on a bad frame.
inline std::vector<std::string> events_in(std::string_view file) {
  const auto crc = [](std::string_view bytes) {
    return crc32c(std::as_bytes(std::span(bytes)));
  };
  std::vector<std::string> events;
  while (!file.empty()) {
    const auto size =
        static_cast<std::size_t>(integer_at<std::uint64_t>(file, 0));
    EXPECT_EQ(
        crc(file.substr(0, 8)),
        unmasked(integer_at<std::uint32_t>(file, 8)));
    if (file.size() < size + 16) {
      ADD_FAILURE() << "half a record";
      break;
    }
    events.emplace_back(file.substr(12, size));
    EXPECT_EQ(
        crc(events.back()),
        unmasked(integer_at<std::uint32_t>(file, 12 + size)));
    file.remove_prefix(size + 16);
  }
  return events;
}

/// The fields of a message: their bytes, or the varint's value as such.
inline std::multimap<std::uint64_t, std::string> fields_of(
    std::string_view message) {
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(0));
      message.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) {
        return value;
      }
    }
  };
  std::multimap<std::uint64_t, std::string> fields;
  while (!message.empty()) {
    const std::uint64_t key = varint();
    if ((key & 7) == 0) {
      fields.emplace(key >> 3, std::to_string(varint()));
      continue;
    }
    const std::size_t size = (key & 7) == 1 ? 8
        : (key & 7) == 5                    ? 4
                         : static_cast<std::size_t>(varint());
    fields.emplace(key >> 3, message.substr(0, size));
    message.remove_prefix(size);
  }
  return fields;
}

inline std::string field(
    std::string_view message,
    std::uint64_t number,
    std::string other = "") {
  const auto fields = fields_of(message);
  const auto found = fields.find(number);
  return found == fields.end() ? other : found->second;
}

struct ReadScalar {
  std::string name;
  float value = 0;
  std::int64_t step = 0;
  double time = 0;
};

inline ReadScalar scalar_in(const std::string& event) {
  const std::string value = field(field(event, 5), 1);
  return {
      .name = field(value, 1),
      .value =
          std::bit_cast<float>(integer_at<std::uint32_t>(field(value, 2), 0)),
      .step = std::stoll(field(event, 2, "0")),
      .time =
          std::bit_cast<double>(integer_at<std::uint64_t>(field(event, 1), 0))};
}

} // namespace cairn::monitor
