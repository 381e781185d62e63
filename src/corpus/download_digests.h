#pragma once

#include <cairn/corpus/download.h>

#include "corpus/message_digest.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace cairn::corpus {

/// The sums of a file: SHA-256 always, SHA-1 where somebody asks for it.
class DownloadDigests {
 public:
  explicit DownloadDigests(bool with_sha1);

  void reset();
  void update(std::span<const char> bytes);
  /// From where `fd` is to its end; returns how many bytes that were.
  std::uint64_t update_from(int fd, const std::filesystem::path& path);

  std::string sha256() const { return sha256_.hex(); }
  std::string hex(Checksum::Kind kind) const;

 private:
  MessageDigest sha256_{"sha256"};
  std::optional<MessageDigest> sha1_;
};

/// Whether the request's sum is a SHA-1.
bool needs_sha1(const DownloadRequest& request);

/// "sha1 is … and should be …"
std::string mismatch(const Checksum& expected, const std::string& found);

} // namespace cairn::corpus
