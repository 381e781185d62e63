#pragma once

#include <cairn/base/unique_fd.h>
#include <cairn/generate/text_generator.h>

#include <filesystem>
#include <optional>
#include <string>

namespace cairn::cli {

/// A line of JSON for every text, written as soon as it is there: what was made
/// before a kill stays.
class GeneratedFile {
 public:
  /// Throws DataError if it cannot be written. What is there stays until
  /// clear().
  explicit GeneratedFile(std::filesystem::path path);

  void clear();
  void add(
      const generate::GeneratedText& text,
      const std::optional<std::string>& prompt = std::nullopt);

 private:
  std::filesystem::path path_;
  UniqueFd file_;
};

} // namespace cairn::cli
