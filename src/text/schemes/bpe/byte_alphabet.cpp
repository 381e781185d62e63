#include "text/schemes/bpe/byte_alphabet.h"

#include "base/internal/utf8.h"

namespace cairn::text {

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  // Printable characters of Latin-1 stand for themselves; the other bytes get
  // the characters from U+0100 on.
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= '!' && byte <= '~') ||
        (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    const char32_t c = prints ? static_cast<char32_t>(byte) : next++;
    characters_[byte] = c;
    bytes_[c] = static_cast<short>(byte);
  }
}

std::string ByteAlphabet::write(std::string_view bytes) const {
  std::string token;
  for (const char byte : bytes) {
    append_utf8(token, character(static_cast<unsigned char>(byte)));
  }
  return token;
}

bool ByteAlphabet::read(std::string_view token, std::string& bytes) const {
  const std::size_t before = bytes.size();
  for (const char *at = token.data(), *end = at + token.size(); at != end;) {
    const Utf8Char c = decode_utf8(at, end);
    if (c.code_point >= bytes_.size() || bytes_[c.code_point] < 0) {
      bytes.resize(before);
      return false;
    }
    bytes.push_back(static_cast<char>(bytes_[c.code_point]));
    at += c.length;
  }
  return true;
}

} // namespace cairn::text
