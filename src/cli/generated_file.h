#pragma once

#include <cairn/base/unique_fd.h>
#include <cairn/generate/text_generator.h>

#include <filesystem>
#include <optional>
#include <string>

namespace cairn::cli {

/// A line of JSON for every text, written when add() is called: what was made
/// before a kill stays. What the file held before stays until the first text,
/// and a new one without any is removed.
class GeneratedFile {
 public:
  /// Throws DataError if it cannot be written.
  explicit GeneratedFile(std::filesystem::path path);
  ~GeneratedFile();
  GeneratedFile(const GeneratedFile&) = delete;
  GeneratedFile& operator=(const GeneratedFile&) = delete;

  void add(
      const generate::GeneratedText& text,
      const std::optional<std::string>& prompt = std::nullopt);

 private:
  void clear();

  std::filesystem::path path_;
  bool was_there_;
  UniqueFd file_;
  bool empty_ = true; ///< of our texts
};

} // namespace cairn::cli
