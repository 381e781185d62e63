#pragma once

#include <cairn/base/file.h>
#include <cairn/generate/generate.h>

#include <filesystem>
#include <optional>
#include <string>

namespace cairn::cli {

/// Writes a line of JSON for every text when add() is called, so texts made
/// before a kill stay. Until the first text the file is as it was, or absent.
class GeneratedFile {
 public:
  /// Throws DataError if it cannot be written.
  explicit GeneratedFile(std::filesystem::path path);

  void add(
      const generate::GeneratedText& text,
      const std::optional<std::string>& prompt = std::nullopt);

 private:
  std::filesystem::path path_;
  UniqueFd file_;
};

} // namespace cairn::cli
