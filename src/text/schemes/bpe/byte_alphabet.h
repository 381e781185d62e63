#pragma once

#include <array>
#include <string>
#include <string_view>

namespace cairn::text {

/// The printable characters that byte-level vocabularies write for the 256
/// bytes: Ġ for a space, Ċ for a newline.
class ByteAlphabet {
 public:
  ByteAlphabet();

  char32_t character(unsigned char byte) const { return characters_[byte]; }

  /// Spells bytes as a vocabulary does.
  std::string write(std::string_view bytes) const;

  /// Appends the bytes of a vocabulary's token. Returns false and appends
  /// nothing when the token holds a character that stands for no byte.
  bool read(std::string_view token, std::string& bytes) const;

 private:
  std::array<char32_t, 256> characters_{};
  std::array<short, 512> bytes_{}; ///< by character; -1: no byte
};

} // namespace cairn::text
