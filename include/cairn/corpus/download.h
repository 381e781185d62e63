#pragma once

#include <cairn/base/log.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cairn::corpus {

struct Checksum {
  enum class Kind { sha256, sha1 };
  Kind kind = Kind::sha256;
  std::string hex; ///< lower case

  bool operator==(const Checksum&) const = default;
};

/// Reads 64 hexadecimal digits, in either case; anything else is a ConfigError.
Checksum sha256_checksum(const std::string& hex);

struct DownloadRequest {
  std::vector<std::string> addresses; ///< https or http, tried in this order
  std::filesystem::path path;         ///< where the file is to be
  std::optional<Checksum> expected{};
  std::optional<std::uint64_t> size{}; ///< in bytes, where it is known
  /// Fetches the file although it is there, instead of only checking it.
  bool replace = false;
};

/// Told how a download goes on; every member may be left as it is.
class DownloadWatcher {
 public:
  virtual ~DownloadWatcher() = default;
  /// Bytes will come, after the `from` that are here already. 0 as `total`
  /// means that the server does not say.
  virtual void begin(std::uint64_t /*from*/, std::uint64_t /*total*/) {}
  virtual void advance(std::uint64_t /*bytes*/) {}
  /// No more of them: the connection is lost, or they were not the right ones.
  virtual void interrupted() {}
  virtual void complete() {}
};

struct DownloadOptions {
  int attempts = 6; ///< in a row without a single new byte, for each address
  std::chrono::milliseconds first_wait{1'000}; ///< twice that the next time
  std::chrono::milliseconds longest_wait{60'000};
  std::chrono::milliseconds connect_timeout{20'000};
  std::chrono::milliseconds stall_timeout{30'000};
  int redirects = 10;
  std::string certificates{}; ///< file of trusted ones; empty: the system's
  DownloadWatcher* watcher = nullptr;
};

struct DownloadReport {
  std::uint64_t size = 0;
  std::string sha256;
  std::string address{}; ///< where it came from; empty: it was there already
  std::uint64_t resumed_from = 0;
};

/// Brings a file to `request.path`, where it appears only when it is complete
/// and its checksum right. What has arrived is kept beside it, as NAME.part,
/// and the next call goes on from there if the server still has the same file.
/// What cannot be had is a DataError that names every address and how to bring
/// the file by hand.
DownloadReport download(
    const DownloadRequest& request,
    const DownloadOptions& options,
    const Logger& log);

/// The last part of the address's path, percent signs decoded: what to call the
/// file. A ConfigError for what is no address, or ends in no such name.
std::string file_name_of(const std::string& address);

/// A small text, such as a list of checksums; more than `limit` bytes of it are
/// a DataError.
std::string download_text(
    const std::vector<std::string>& addresses,
    std::size_t limit,
    const DownloadOptions& options,
    const Logger& log);

} // namespace cairn::corpus
