#pragma once

#include "corpus/download/message_digest.h"
#include "corpus/internal/download.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace cairn::corpus {

/// The checksums of a file: always SHA-256, and SHA-1 if asked for.
class DownloadDigests {
 public:
  explicit DownloadDigests(bool with_sha1);

  void reset();
  void update(std::span<const char> bytes);
  /// Adds the bytes from the position of `fd` to its end; returns their number.
  std::uint64_t update_from(int fd, const std::filesystem::path& path);

  std::string sha256() const { return sha256_.hex(); }
  std::string hex(Checksum::Kind kind) const;

 private:
  MessageDigest sha256_{"sha256"};
  std::optional<MessageDigest> sha1_;
};

/// True when the request's checksum is a SHA-1.
bool needs_sha1(const DownloadRequest& request);

/// "sha1 is … and should be …"
std::string mismatch(const Checksum& expected, const std::string& found);

} // namespace cairn::corpus
