#pragma once

#include <string>
#include <string_view>

namespace cairn::distributed {

/// SHA-256 (FIPS 180-4) of `text`: 32 bytes.
std::string sha256(std::string_view text);

/// HMAC-SHA-256 (RFC 2104) of `text` under `key`: 32 bytes, which only those
/// who know the key can compute.
std::string hmac_sha256(std::string_view key, std::string_view text);

/// True when both are the same. The time that it takes tells nothing about
/// where they differ.
bool equal_in_constant_time(std::string_view one, std::string_view other);

} // namespace cairn::distributed
