#pragma once

#include <array>
#include <string>
#include <string_view>

namespace cairn::text {

/// The printable characters that byte-level vocabularies write for the 256
/// bytes: a space is Ġ, a newline Ċ.
class ByteAlphabet {
 public:
  ByteAlphabet();

  char32_t character(unsigned char byte) const { return characters_[byte]; }

  /// Bytes as a vocabulary writes them.
  std::string write(std::string_view bytes) const;

  /// Appends the bytes of a vocabulary's token; false, and nothing appended,
  /// when it holds a character that stands for no byte.
  bool read(std::string_view token, std::string& bytes) const;

 private:
  std::array<char32_t, 256> characters_{};
  std::array<short, 512> bytes_{}; ///< by character; -1 where there is none
};

} // namespace cairn::text
