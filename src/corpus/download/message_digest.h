#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace cairn::corpus {

/// A checksum of bytes that arrive in pieces.
class MessageDigest {
 public:
  /// `algorithm` is OpenSSL's name: "sha256", "sha1".
  explicit MessageDigest(const char* algorithm);

  void update(std::span<const char> bytes);
  /// The digest of everything so far, in lower-case hexadecimal; update() may
  /// follow.
  std::string hex() const;
  void reset();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  const char* algorithm_;
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

} // namespace cairn::corpus
