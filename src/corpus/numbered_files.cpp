#include "corpus/numbered_files.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <system_error>

namespace cairn::corpus {
namespace fs = std::filesystem;

NumberedFiles::NumberedFiles(const fs::path& output, std::uint64_t bytes)
    : bytes_(bytes) {
  if (!output.has_filename() || fs::is_directory(output)) {
    folder_ = output;
    if (fs::exists(folder_ / "AA")) {
      throw DataError(
          {.what = "the folder holds the files of an earlier run",
           .where = folder_.string(),
           .remedy = "choose another, or remove AA, AB, … in it"});
    }
  } else {
    file_ = std::make_unique<OutputFile>(output);
  }
}

fs::path NumberedFiles::next_path() {
  const unsigned number = count_++;
  const unsigned folder = number / 100;
  const fs::path path = folder_ /
      fmt::format("{}{}",
                  static_cast<char>('A' + folder / 26 % 26),
                  static_cast<char>('A' + folder % 26));
  if (number >= 26 * 26 * 100) {
    throw DataError(
        {.what = "the output needs more than 67600 files",
         .where = folder_.string(),
         .remedy = "allow more bytes per file"});
  }
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    throw DataError(
        {.what = "cannot make the folder: " + error.message(),
         .where = path.string()});
  }
  return path / fmt::format("wiki_{:02}", number % 100);
}

void NumberedFiles::write_line(std::string_view line) {
  if (!folder_.empty() && file_ != nullptr && file_->size() > 0 &&
      file_->size() + line.size() > bytes_) {
    commit();
  }
  if (file_ == nullptr) {
    file_ = std::make_unique<OutputFile>(next_path());
  }
  file_->write(line);
}

void NumberedFiles::commit() {
  if (file_ != nullptr) {
    file_->commit();
    file_.reset();
  }
}

} // namespace cairn::corpus
