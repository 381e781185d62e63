#pragma once

#include <cairn/base/unique_fd.h>

#include "corpus/download_digests.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace cairn::corpus {

/// Where the bytes of a part came from, so that later ones can be asked for.
struct PartOrigin {
  std::string address;
  std::string validator;   ///< ETag or date; empty: the server gave none
  std::uint64_t total = 0; ///< of the whole file; 0: not known

  bool operator==(const PartOrigin&) const = default;
};

/// The file NAME.part: what has arrived so far. NAME.part.json beside it holds
/// its origin. Both outlive the process, unless the download was completed or
/// given up; one process at a time has them.
class DownloadPart {
 public:
  /// Goes on with what lies beside `path`, or starts an empty part. A DataError
  /// when another process is at it.
  DownloadPart(std::filesystem::path path, bool with_sha1);

  std::uint64_t size() const noexcept { return size_; }
  const PartOrigin& origin() const noexcept { return origin_; }

  void start_over(PartOrigin origin);
  void append(std::span<const char> bytes);

  const DownloadDigests& digests() const noexcept { return digests_; }

  /// Makes it durable and gives it its final name.
  void publish();
  /// Removes it.
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
