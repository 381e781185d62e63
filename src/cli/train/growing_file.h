#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

namespace cairn::cli {

/// A file that another process writes meanwhile, line by line. It need not be
/// there yet.
class GrowingFile {
 public:
  explicit GrowingFile(std::filesystem::path path) : path_(std::move(path)) {}

  /// The next complete line; none if it is not written yet.
  std::optional<std::string> next();

 private:
  std::filesystem::path path_;
  std::ifstream file_;
  std::string partial_;
};

} // namespace cairn::cli
