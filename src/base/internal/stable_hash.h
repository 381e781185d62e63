#pragma once

#include <cstdint>
#include <string_view>

namespace cairn::inline base {

/// FNV-1a of 64 bits. A name has the same hash on every machine and in every
/// version, so the hash may be stored and may choose random streams. It is not
/// safe against hostile input: anyone can construct two names with one hash.
constexpr std::uint64_t stable_hash(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

} // namespace cairn::base
