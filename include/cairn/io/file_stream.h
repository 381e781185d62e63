#pragma once

#include <cairn/base/error.h>
#include <cairn/base/large_buffer.h>
#include <cairn/io/async_file.h>
#include <cairn/io/io_queue.h>
#include <cairn/io/pending.h>

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
/// The bytes go past the page cache where the file system allows it (O_DIRECT),
/// several requests at a time, from a fixed amount of memory. The file has its
/// exact size. What cannot be done (the file exists, a full disk) is a
/// DataError with the path, from a call soon after it happened or from
/// finish(), and the same again from every call after that. A stream that is
/// destroyed before finish() has succeeded removes its file. For one thread.
class FileStream {
 public:
  struct Options {
    /// If it is known, the space is taken at the start: a full disk is found
    /// at once. More or fewer bytes may be written all the same.
    std::uint64_t expected_size = 0;
    /// Bytes of a request to the disk, and how many of them there is memory
    /// for: one is being filled while the others are under way.
    std::size_t block_size = 1 << 20;
    std::size_t blocks = 8;
  };

  FileStream(const std::filesystem::path& path, const Options& options);
  explicit FileStream(const std::filesystem::path& path);
  FileStream(const FileStream&) = delete;
  FileStream& operator=(const FileStream&) = delete;

  void write(std::span<const std::byte> bytes);
  /// The same, and returns their CRC-32C, which is taken during the copy;
  /// `sum` is that of the bytes before them, if it is to count those too.
  std::uint32_t write_summed(
      std::span<const std::byte> bytes,
      std::uint32_t sum = 0);

  /// Memory for the next bytes, at least one: who makes them can do so in
  /// place, and say with advance() how many there are. Waits for the disk.
  std::span<std::byte> room();
  void advance(std::size_t bytes);

  /// Bytes taken so far.
  std::uint64_t size() const noexcept { return offset_ + filled_; }
  const std::filesystem::path& path() const noexcept { return file_.path(); }
  Access access() const { return file_.access(); }

  /// Returns when the content is on the disk. The file's name is safe only
  /// once its folder has been synced too, which whoever makes several files
  /// does once for all.
  void finish();

 private:
  /// Removes the file again, unless it is finished.
  struct Name {
    std::filesystem::path path;
    bool keep = false;
    ~Name();
  };

  /// Runs a step; remembers what fails, as trying an fsync again, say, would
  /// succeed without the bytes being there.
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
  std::vector<Pending> written_; ///< a block each; ends before its memory
  std::uint64_t reserved_;
  std::size_t current_ = 0;  ///< the block that is being filled
  std::size_t filled_ = 0;   ///< bytes in it
  std::uint64_t offset_ = 0; ///< of its first byte in the file
  std::optional<Problem> problem_;
};

} // namespace cairn::io
