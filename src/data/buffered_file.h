#pragma once

#include <cairn/base/unique_fd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace cairn::data {

/// An open file that is written front to back in large pieces and may be read
/// back. What cannot be done is a DataError that names `path`.
class BufferedFile {
 public:
  BufferedFile(UniqueFd fd, std::filesystem::path path);

  void write(std::span<const std::byte> bytes);

  template <typename T>
  void write_values(std::span<const T> values) {
    write(std::as_bytes(values));
  }
  template <typename T>
  void write_value(T value) {
    write(std::as_bytes(std::span<const T>(&value, 1)));
  }

  std::uint64_t size() const noexcept { return size_; }
  int fd() const noexcept { return fd_.get(); }
  const std::filesystem::path& path() const noexcept { return path_; }

  void flush();

  /// Has the system begin to put on disk what was written, now and then, so
  /// that little is left to wait for in the end.
  void write_behind() noexcept;

  /// Hands over all that was written, in pieces of a multiple of `unit` bytes.
  void replay(
      std::size_t unit,
      const std::function<void(std::span<const std::byte>)>& take);

 private:
  UniqueFd fd_;
  std::filesystem::path path_;
  std::vector<std::byte> buffer_;
  std::uint64_t size_ = 0;
  std::uint64_t begun_ = 0; ///< bytes on their way to the disk
};

/// A file without a name in the folder of `beside`: it is gone when the program
/// ends, however it ends. Errors name `beside`.
BufferedFile open_unnamed_file(const std::filesystem::path& beside);

} // namespace cairn::data
