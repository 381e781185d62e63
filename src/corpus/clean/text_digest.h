#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cairn::corpus {

/// 128 bits of a text's SHA-256. Different texts have different digests, even
/// if somebody tries to construct equal ones.
struct TextDigest {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  bool operator==(const TextDigest&) const = default;

  struct Hash {
    std::size_t operator()(const TextDigest& digest) const noexcept {
      return digest.first;
    }
  };
};

TextDigest digest_of(std::string_view text);

} // namespace cairn::corpus
