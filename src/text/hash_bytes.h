#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace cairn::text {

/// A hash for tables in memory: fast, never stored, and not safe against
/// deliberate collisions. Tables therefore bound how far they probe, or compare
/// whole keys.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a ^ 0x9e3779b97f4a7c15) *
      static_cast<Wide>(b ^ 0xe7037ed1a0b428db);
  return static_cast<std::uint64_t>(product) ^
      static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_bytes(std::string_view bytes) {
  std::uint64_t hash = bytes.size();
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    hash = mix(hash, word);
  }
  std::uint64_t word = 0;
  if (left != 0) { // an empty view may have no address
    std::memcpy(&word, at, left);
  }
  return mix(hash, word);
}

} // namespace cairn::text
