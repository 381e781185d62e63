#pragma once

#include "base/internal/large_buffer.h"

#include <cairn/base/error.h>
#include <cairn/io/io_queue.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace cairn::io {

/// Writes one new file from front to back at the disk's own speed:
///
///   FileStream file("step-100/rank-0.safetensors", {.expected_size = bytes});
///   file.write(header);
///   file.write(tensor); // returns once it is copied; the disk works on
///   file.finish();      // now it is on the disk
///
/// The bytes bypass the page cache where the file system allows it (O_DIRECT),
/// several requests at a time, from a fixed amount of memory. The file has its
/// exact size. A failure (the file exists, a full disk) is a DataError with the
/// path, thrown by a call soon after it happened or by finish(), and again by
/// every later call. A stream that is destroyed before finish() has succeeded
/// removes its file. For one thread.
class FileStream {
 public:
  struct Options {
    /// Size of the file, if known. The space is then allocated at the start, so
    /// a full disk is found at once. More or fewer bytes may be written.
    std::uint64_t expected_size = 0;
    /// Bytes per request to the disk, and the number of such blocks in memory:
    /// one is being filled while the others are being written.
    std::size_t block_size = 1 << 20;
    std::size_t blocks = 8;
  };

  FileStream(const std::filesystem::path& path, const Options& options);
  explicit FileStream(const std::filesystem::path& path);
  FileStream(const FileStream&) = delete;
  FileStream& operator=(const FileStream&) = delete;

  void write(std::span<const std::byte> bytes);
  /// Writes bytes and returns their CRC-32C, which is computed during the copy.
  /// To sum over several calls, pass the previous result as `sum`.
  std::uint32_t write_summed(
      std::span<const std::byte> bytes,
      std::uint32_t sum = 0);

  /// Memory for the next bytes, at least one, so that a producer can make them
  /// in place and report their number with advance(). Waits for the disk.
  std::span<std::byte> room();
  void advance(std::size_t bytes);

  /// Bytes written so far.
  std::uint64_t size() const noexcept { return offset_ + filled_; }
  const std::filesystem::path& path() const noexcept { return file_.path(); }
  Access access() const { return file_.access(); }

  /// Returns when the content is on the disk. The file's name is durable only
  /// once its folder has been synced too; a caller that makes several files
  /// syncs the folder once for all.
  void finish();

 private:
  /// Removes the file again unless `keep` is set.
  struct Name {
    std::filesystem::path path;
    bool keep = false;
    ~Name();
  };

  /// Runs a step and remembers its failure for all later calls. A second fsync,
  /// for example, would succeed although the bytes are lost.
  template <typename Step>
  void attempt(Step&& step);
  template <typename Copy>
  void write_by(std::span<const std::byte> bytes, Copy&& copy);
  void start_writing();
  std::span<std::byte> current_block() const;

  AsyncFile file_;
  Name name_;
  IoQueue queue_;
  std::size_t block_size_;
  LargeBuffer memory_;
  std::vector<PendingTransfer>
      written_; ///< one per block; destroyed before memory_
  std::uint64_t reserved_;
  std::size_t current_ = 0;  ///< index of the block being filled
  std::size_t filled_ = 0;   ///< bytes in it
  std::uint64_t offset_ = 0; ///< file offset of that block
  std::optional<Problem> problem_;
};

} // namespace cairn::io
