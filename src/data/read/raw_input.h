#pragma once

#include <cairn/base/file.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace cairn::data {

/// The stored bytes of a file or of standard input, with look-ahead.
class RawInput {
 public:
  /// Opens the input. It ends when the descriptor `interrupt` becomes readable;
  /// -1 for none.
  explicit RawInput(const std::filesystem::path& path, int interrupt = -1);

  /// The bytes at hand that are not yet consumed. Reads more if there are none,
  /// so the result is empty only at the end.
  std::span<const char> available();
  /// The bytes at hand, at least `count` of them unless the end comes first.
  std::span<const char> at_least(std::size_t count);
  void consume(std::size_t count) noexcept;
  /// Fills `out` from the front and returns the number of bytes; 0 only at the
  /// end. Large reads bypass the buffer.
  std::size_t read(std::span<char> out);

  std::uint64_t size() const noexcept { return size_; }
  std::uint64_t position() const noexcept { return position_; }
  const std::string& name() const noexcept { return name_; }

  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] void refuse_torn() const;

 private:
  bool read_more();
  std::size_t read_file(std::span<char> out);
  bool wait_for_bytes() const; ///< false when interrupted

  std::string name_;
  UniqueFd fd_;
  int interrupt_;
  std::uint64_t size_ = 0;
  std::uint64_t position_ = 0; ///< bytes consumed so far
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

} // namespace cairn::data
