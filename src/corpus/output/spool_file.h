#pragma once

#include <cairn/base/file.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace cairn::corpus {

/// A nameless temporary file of texts that can be read back in any order. It
/// disappears with the process, however that ends.
class SpoolFile {
 public:
  explicit SpoolFile(const std::filesystem::path& folder);

  void append(std::string_view text);
  /// Makes everything appended so far readable, by any thread.
  void flush();
  std::string read(std::uint64_t offset, std::size_t size) const;

  std::uint64_t size() const noexcept { return size_; }

 private:
  std::filesystem::path path_; ///< for messages
  UniqueFd fd_;
  std::string buffer_;
  std::uint64_t size_ = 0;
};

} // namespace cairn::corpus
