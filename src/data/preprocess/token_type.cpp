#include <cairn/base/error.h>
#include <cairn/data/indexed_dataset.h>

namespace cairn::data {

std::size_t size_of(TokenType type) {
  switch (type) {
    case TokenType::uint8:
    case TokenType::int8:
      return 1;
    case TokenType::int16:
    case TokenType::uint16:
      return 2;
    case TokenType::int32:
    case TokenType::float32:
      return 4;
    case TokenType::int64:
    case TokenType::float64:
      return 8;
  }
  throw InternalError({.what = "no such token type"});
}

std::string_view name_of(TokenType type) {
  switch (type) {
    case TokenType::uint8:
      return "uint8";
    case TokenType::int8:
      return "int8";
    case TokenType::int16:
      return "int16";
    case TokenType::int32:
      return "int32";
    case TokenType::int64:
      return "int64";
    case TokenType::float64:
      return "float64";
    case TokenType::float32:
      return "float32";
    case TokenType::uint16:
      return "uint16";
  }
  throw InternalError({.what = "no such token type"});
}

TokenType token_type_for(std::size_t vocab_size) {
  return vocab_size < 65500 ? TokenType::uint16 : TokenType::int32;
}

} // namespace cairn::data
