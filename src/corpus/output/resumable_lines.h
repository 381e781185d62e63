#pragma once

#include <cairn/base/file.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace cairn::corpus {

/// A file of lines that a later run continues, even if the earlier one was
/// killed in the middle of a line. One process at a time may use it.
class ResumableLines {
 public:
  /// Opens or makes the file and hands its lines, without their ends, to
  /// `take`. From the first line that has no end, or that `take` refuses by
  /// returning false, the file is cut off.
  ResumableLines(
      std::filesystem::path path,
      const std::function<bool(std::string_view line)>& take);

  /// Appends `line`, which ends in "\n". It is in the file when this returns.
  void append(std::string_view line);

  /// Forgets all lines.
  void clear();

  /// Makes the file durable.
  void sync();
  /// Does that and gives the file another name.
  void publish(const std::filesystem::path& name);

 private:
  void cut_at(std::uint64_t size);

  std::filesystem::path path_;
  UniqueFd fd_;
};

} // namespace cairn::corpus
