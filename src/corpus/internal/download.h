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

/// Parses 64 hexadecimal digits, in either case. Throws ConfigError for
/// anything else.
Checksum sha256_checksum(const std::string& hex);

struct DownloadRequest {
  std::vector<std::string> addresses; ///< https or http, tried in this order
  std::filesystem::path path;         ///< where the file will be
  std::optional<Checksum> expected{};
  std::optional<std::uint64_t> size{}; ///< in bytes, if it is known
  /// Fetches the file again if it exists, instead of only checking it.
  bool replace = false;
};

/// Gets told how a download proceeds; every member function has an empty
/// default.
class DownloadWatcher {
 public:
  virtual ~DownloadWatcher() = default;
  /// Called before bytes come, when `from` bytes are here already. `total` is 0
  /// when the server does not say.
  virtual void begin(std::uint64_t /*from*/, std::uint64_t /*total*/) {}
  virtual void advance(std::uint64_t /*bytes*/) {}
  /// Called when no more bytes come: the connection is lost, or the bytes were
  /// not the right ones.
  virtual void interrupted() {}
  virtual void complete() {}
};

struct DownloadOptions {
  int attempts = 6; ///< per address, in a row without a new byte
  std::chrono::milliseconds first_wait{1'000}; ///< doubles with each attempt
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
  std::string address{}; ///< source; empty: the file existed
  std::uint64_t resumed_from = 0;
};

/// Downloads a file to `request.path`, where it appears only when it is
/// complete and its checksum is right. Bytes that have arrived are kept beside
/// it, as NAME.part, and the next call continues there if the server still has
/// the same file. Throws DataError, which names every address and how to get
/// the file by hand, if no address works.
DownloadReport download(
    const DownloadRequest& request,
    const DownloadOptions& options,
    const Logger& log);

/// The last part of the address's path, with percent signs decoded: a name for
/// the file. Throws ConfigError if this is no address or ends in no usable
/// name.
std::string file_name_of(const std::string& address);

/// Downloads a small text, such as a list of checksums. Throws DataError if it
/// has more than `limit` bytes.
std::string download_text(
    const std::vector<std::string>& addresses,
    std::size_t limit,
    const DownloadOptions& options,
    const Logger& log);

} // namespace cairn::corpus
