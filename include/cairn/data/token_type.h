#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cairn::data {

/// The type of a token in a .bin file; the values are the codes in .idx files.
enum class TokenType : std::uint8_t {
  uint8 = 1,
  int8 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  float64 = 6,
  float32 = 7,
  uint16 = 8,
};

std::size_t size_of(TokenType type);
std::string_view name_of(TokenType type);

/// The type by Megatron's rule: uint16 below 65500 entries, else int32.
TokenType token_type_for(std::size_t vocab_size);

} // namespace cairn::data
