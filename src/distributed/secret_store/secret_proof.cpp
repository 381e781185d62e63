#include "distributed/secret_store/secret_proof.h"

#include "distributed/secret_store/hmac_sha256.h"

#include <cairn/base/error.h>

#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace cairn::distributed {

std::string new_nonce() {
  std::string nonce(nonce_size, '\0');
  if (::getrandom(nonce.data(), nonce.size(), 0) !=
      static_cast<ssize_t>(nonce.size())) {
    throw CommError(
        {.what = "the system gives no random bytes",
         .values = std::strerror(errno)});
  }
  return nonce;
}

std::string proof_of_rank(
    std::string_view secret,
    std::string_view nonce_of_table,
    std::string_view nonce_of_rank) {
  return hmac_sha256(
      secret,
      "rank " + std::string(nonce_of_table) + std::string(nonce_of_rank));
}

std::string proof_of_table(
    std::string_view secret,
    std::string_view nonce_of_table,
    std::string_view nonce_of_rank) {
  return hmac_sha256(
      secret,
      "table" + std::string(nonce_of_table) + std::string(nonce_of_rank));
}

} // namespace cairn::distributed
