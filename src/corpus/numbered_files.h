#pragma once

#include <cairn/base/unique_fd.h>

#include "corpus/output_file.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

namespace cairn::corpus {

/// Where articles go: one file, standard output, or a folder of files
/// AA/wiki_00 … AA/wiki_99, AB/wiki_00 …, each of whole lines and, unless one
/// line alone is longer, at most so many bytes. All of them appear at commit():
/// until then they are in the folder's .unfinished, which a later run clears
/// away.
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

  std::filesystem::path folder_; ///< empty: one file
  std::filesystem::path unfinished_;
  UniqueFd lock_;
  std::uint64_t bytes_;
  unsigned count_ = 0;
  std::unique_ptr<OutputFile> file_;
};

} // namespace cairn::corpus
