#include "corpus/clean/text_digest.h"

#include <cairn/base/error.h>

#include <openssl/evp.h>

#include <array>
#include <cstring>

namespace cairn::corpus {

TextDigest digest_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  if (::EVP_Digest(
          text.data(),
          text.size(),
          bytes.data(),
          nullptr,
          ::EVP_sha256(),
          nullptr) != 1) {
    throw InternalError({.what = "OpenSSL has no SHA-256"});
  }
  TextDigest digest;
  static_assert(sizeof(digest) == 16);
  std::memcpy(&digest, bytes.data(), sizeof(digest));
  return digest;
}

} // namespace cairn::corpus
