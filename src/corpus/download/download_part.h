#pragma once

#include <cairn/base/file.h>

#include "corpus/download/download_digests.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace cairn::corpus {

/// Origin of the bytes of a part, needed to request the rest.
struct PartOrigin {
  std::string address;
  std::string validator;   ///< ETag or date; empty: none given
  std::uint64_t total = 0; ///< of the whole file; 0: unknown

  bool operator==(const PartOrigin&) const = default;
};

/// The file NAME.part: the bytes that have arrived so far. NAME.part.json
/// beside it holds their origin. Both outlive the process until the download is
/// complete or given up. One process at a time may use them.
class DownloadPart {
 public:
  /// Continues the part beside `path`, or starts an empty one. Throws DataError
  /// when another process is using it.
  DownloadPart(std::filesystem::path path, bool with_sha1);

  std::uint64_t size() const noexcept { return size_; }
  const PartOrigin& origin() const noexcept { return origin_; }

  void start_over(PartOrigin origin);
  void append(std::span<const char> bytes);

  const DownloadDigests& digests() const noexcept { return digests_; }

  /// Makes the part durable and gives it its final name.
  void publish();
  /// Deletes the part and its origin.
  void discard();

 private:
  std::filesystem::path path_;
  std::filesystem::path part_path_;
  std::filesystem::path origin_path_;
  UniqueFd fd_;
  DownloadDigests digests_;
  std::uint64_t size_ = 0;
  PartOrigin origin_;
};

} // namespace cairn::corpus
