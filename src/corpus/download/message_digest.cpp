#include "corpus/download/message_digest.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace cairn::corpus {
namespace {

void require(int succeeded, const char* algorithm) {
  if (succeeded != 1) {
    throw Error(
        {.what = fmt::format("OpenSSL does not compute {} here", algorithm)});
  }
}

} // namespace

void MessageDigest::Free::operator()(evp_md_ctx_st* context) const noexcept {
  ::EVP_MD_CTX_free(context);
}

MessageDigest::MessageDigest(const char* algorithm)
    : algorithm_(algorithm), context_(::EVP_MD_CTX_new()) {
  reset();
}

void MessageDigest::reset() {
  const EVP_MD* const kind = ::EVP_get_digestbyname(algorithm_);
  require(
      kind != nullptr && context_ != nullptr &&
          ::EVP_DigestInit_ex(context_.get(), kind, nullptr) == 1,
      algorithm_);
}

void MessageDigest::update(std::span<const char> bytes) {
  require(
      ::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()),
      algorithm_);
}

std::string MessageDigest::hex() const {
  // Finishing a digest ends it, so a copy is finished.
  const std::unique_ptr<evp_md_ctx_st, Free> copy(::EVP_MD_CTX_new());
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  unsigned size = 0;
  require(
      copy != nullptr &&
          ::EVP_MD_CTX_copy_ex(copy.get(), context_.get()) == 1 &&
          ::EVP_DigestFinal_ex(copy.get(), bytes.data(), &size) == 1,
      algorithm_);
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    fmt::format_to(std::back_inserter(text), "{:02x}", bytes[i]);
  }
  return text;
}

} // namespace cairn::corpus
