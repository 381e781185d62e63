#pragma once

#include <cairn/config/zero_config.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace cairn::io {

namespace detail {
struct OpenFile;
} // namespace detail

/// The way of a file's bytes: straight between disk and memory (O_DIRECT), or
/// through the kernel's page cache.
enum class Access { direct, buffered };

const char* to_string(Access access);

/// A file, or a slice of one, that an IoQueue reads and writes. A cheap handle:
/// copies and slices share the open file, which stays open while transfers on
/// it are under way.
///
/// The file is opened for direct access where the file system supports it
/// (tmpfs does not), and always for buffered access too: any part of a transfer
/// that is not aligned to `direct_alignment` in memory and in the file goes
/// through the page cache. Thus any transfer works, aligned transfers are fast,
/// and files have their exact size.
class AsyncFile {
 public:
  /// Opens an existing file.
  static AsyncFile open_for_reading(const std::filesystem::path& path);
  /// Creates a file; an existing one is emptied.
  static AsyncFile create(const std::filesystem::path& path);
  /// Creates a file; an existing one is an error.
  static AsyncFile create_new(const std::filesystem::path& path);
  /// Creates a file without a name in that folder: nobody else can open it, and
  /// the kernel frees its space when the process ends, however that happens.
  static AsyncFile create_unnamed(const std::filesystem::path& folder);

  /// Bytes [offset, offset + size) as a separate file, called `path` in error
  /// messages. Transfers beyond its end are refused.
  AsyncFile slice(
      std::filesystem::path path,
      std::uint64_t offset,
      std::uint64_t size) const;

  const std::filesystem::path& path() const { return *path_; }
  Access access() const;

  /// Extends the file to offset + size and allocates that space on disk now, so
  /// that no later write finds the disk full. Where the file system cannot
  /// allocate in advance, only the length is set. Bytes that were never written
  /// read as zero.
  void reserve(std::uint64_t offset, std::uint64_t size);
  /// Truncates the file to `size` bytes. Not for slices.
  void cut(std::uint64_t size);
  /// Returns when everything written is on the disk.
  void sync();
  /// Makes the kernel drop its cached pages of the file, so that the next read
  /// measures the disk. Call it only after sync().
  void drop_cache();

 private:
  friend class IoQueue;
  AsyncFile(std::shared_ptr<detail::OpenFile> file, std::filesystem::path path);

  std::shared_ptr<detail::OpenFile> file_;
  std::shared_ptr<const std::filesystem::path> path_;
  std::uint64_t offset_ = 0;
  std::optional<std::uint64_t> size_; ///< set for a slice
};

namespace detail {
class Transfer;
} // namespace detail

/// A transfer under way. Until wait() its memory must stay valid, and memory
/// that is being read into must not be touched. The destructor waits too; the
/// next call on the queue throws an error found there.
class [[nodiscard]] PendingTransfer {
 public:
  PendingTransfer() = default; ///< nothing under way
  explicit PendingTransfer(std::shared_ptr<detail::Transfer> transfer);
  PendingTransfer(PendingTransfer&&) noexcept = default;
  PendingTransfer& operator=(PendingTransfer&& other) noexcept;
  ~PendingTransfer();

  /// Blocks until all bytes have moved. Any thread may call it. Throws
  /// DataError with path, offset and the system's reason. Further calls give
  /// the same result.
  void wait();
  /// True when wait() would return or throw at once.
  bool done() const;

 private:
  void finish() noexcept;

  std::shared_ptr<detail::Transfer> transfer_;
};

namespace detail {
class Engine;
enum class Direction : bool;
class LostError;
} // namespace detail

/// The mechanism that moves the bytes: the kernel's io_uring, or threads that
/// call pread(2) and pwrite(2). Both give the same results, at different
/// speeds.
enum class EngineKind { uring, threads };

const char* to_string(EngineKind kind);

/// Reads and writes files while the caller does something else.
///
///   IoQueue queue(config.aio);
///   PendingTransfer next = queue.read(file, offset, buffer.bytes());
///   …                                  // compute on another buffer meanwhile
///   next.wait();
///
/// A transfer is cut into requests of `block_size` bytes. `queue_depth`
/// requests are in flight at a time on each of `intra_op_parallelism` rings,
/// which have a thread each. Short transfers are continued. Transfers start in
/// order but may end in any order: two that touch the same bytes need a wait()
/// in between. One thread at a time may start transfers. The destructor
/// finishes all of them.
class IoQueue {
 public:
  /// Without a `kind`, uses io_uring if the kernel has it and lets us use it,
  /// else threads; why_not_uring() then tells the reason. With a `kind`, uses
  /// that or throws ConfigError. Also throws ConfigError for impossible
  /// settings.
  explicit IoQueue(
      const config::AioConfig& config = {},
      std::optional<EngineKind> kind = std::nullopt);
  ~IoQueue();
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;

  EngineKind engine() const noexcept { return kind_; }
  /// The reason why io_uring is not used; empty if it is used or was not asked
  /// for.
  const std::string& why_not_uring() const noexcept { return why_not_uring_; }

  PendingTransfer read(
      const AsyncFile& file,
      std::uint64_t offset,
      std::span<std::byte> into);
  PendingTransfer write(
      const AsyncFile& file,
      std::uint64_t offset,
      std::span<const std::byte> from);

 private:
  PendingTransfer start(
      detail::Direction direction,
      const AsyncFile& file,
      std::uint64_t offset,
      std::span<std::byte> bytes);

  std::size_t block_size_;
  EngineKind kind_ = EngineKind::uring;
  std::string why_not_uring_;
  std::shared_ptr<detail::LostError> lost_;
  std::unique_ptr<detail::Engine> engine_;
};

} // namespace cairn::io
