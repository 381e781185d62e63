#pragma once

#include <cairn/base/file.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace cairn::data {

/// An open file that is written front to back in large pieces and can be read
/// back. Errors are DataErrors that name `path`.
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

  /// Lets the system start writing to disk now and then, so that the final sync
  /// has little left to wait for.
  void write_behind() noexcept;

  /// Passes everything written to `take`, in pieces of a multiple of `unit`
  /// bytes.
  void replay(
      std::size_t unit,
      const std::function<void(std::span<const std::byte>)>& take);

 private:
  UniqueFd fd_;
  std::filesystem::path path_;
  std::vector<std::byte> buffer_;
  std::uint64_t size_ = 0;
  std::uint64_t begun_ = 0; ///< bytes already sent to the disk
};

/// Opens a file without a name in the folder of `beside`; it disappears when
/// the program ends, however that happens. Errors name `beside`.
BufferedFile open_unnamed_file(const std::filesystem::path& beside);

} // namespace cairn::data
