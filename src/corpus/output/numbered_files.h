#pragma once

#include <cairn/base/file.h>

#include "corpus/internal/output_file.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

namespace cairn::corpus {

/// Writes articles to one file, to standard output, or to files AA/wiki_00 …
/// AA/wiki_99, AB/wiki_00 … in a folder. Each of these holds whole lines and at
/// most `bytes` bytes, unless a single line is longer. All files appear at
/// commit(); until then they are in the folder's .unfinished, which a later run
/// removes.
class NumberedFiles {
 public:
  NumberedFiles(const std::filesystem::path& output, std::uint64_t bytes);
  ~NumberedFiles();

  void write_line(std::string_view line);
  void commit();

 private:
  void take_folder();
  std::filesystem::path next_path();
  void finish_file();

  std::filesystem::path folder_; ///< empty: the output is one file
  std::filesystem::path unfinished_;
  UniqueFd lock_;
  std::uint64_t bytes_;
  unsigned count_ = 0;
  std::unique_ptr<OutputFile> file_;
};

} // namespace cairn::corpus
