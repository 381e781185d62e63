#pragma once

#include "corpus/output_file.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace cairn::corpus {

/// Where articles go: one file, standard output, or a folder of files
/// AA/wiki_00 … AA/wiki_99, AB/wiki_00 …, each of whole lines and, unless one
/// line alone is longer, at most so many bytes.
class NumberedFiles {
 public:
  NumberedFiles(const std::filesystem::path& output, std::uint64_t bytes);

  void write_line(std::string_view line);
  void commit();

 private:
  std::filesystem::path next_path();

  std::filesystem::path folder_; ///< empty: one file
  std::uint64_t bytes_;
  unsigned count_ = 0;
  std::unique_ptr<OutputFile> file_;
};

} // namespace cairn::corpus
