#include "corpus/output/numbered_files.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include "base/internal/file_error.h"
#include "base/internal/sync_file.h"
#include "corpus/output/make_folders.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace cairn::corpus {
namespace fs = std::filesystem;
namespace {

constexpr unsigned files_per_folder = 100;
constexpr unsigned most_folders = 26 * 26;

std::string folder_name(unsigned number) {
  return {
      static_cast<char>('A' + number / 26),
      static_cast<char>('A' + number % 26)};
}

} // namespace

NumberedFiles::NumberedFiles(const fs::path& output, std::uint64_t bytes)
    : bytes_(bytes) {
  if (!output.has_filename() || fs::is_directory(output)) {
    folder_ = output;
    take_folder();
  } else {
    file_ = std::make_unique<OutputFile>(output);
  }
}

NumberedFiles::~NumberedFiles() {
  if (!unfinished_.empty()) {
    std::error_code ignored;
    fs::remove_all(unfinished_, ignored);
  }
}

void NumberedFiles::take_folder() {
  make_folders(folder_);
  lock_ = open_file(folder_, O_RDONLY | O_DIRECTORY);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw DataError(
        {.what = "another program is writing to this folder",
         .where = folder_.string(),
         .remedy = "wait for it, or choose another"});
  }
  if (fs::exists(folder_ / folder_name(0))) {
    throw DataError(
        {.what = "the folder holds the files of an earlier run",
         .where = folder_.string(),
         .remedy = "choose another, or remove AA, AB, … in it"});
  }
  unfinished_ = folder_ / ".unfinished";
  std::error_code error;
  fs::remove_all(unfinished_, error);
  if (error) {
    throw file_error("clear away", unfinished_, error.value());
  }
}

fs::path NumberedFiles::next_path() {
  const unsigned number = count_++;
  const unsigned folder = number / files_per_folder;
  if (folder >= most_folders) {
    throw DataError(
        {.what = fmt::format(
             "the output needs more than {} files",
             most_folders * files_per_folder),
         .where = folder_.string(),
         .remedy = "allow more bytes per file"});
  }
  const fs::path path = unfinished_ / folder_name(folder);
  make_folders(path);
  return path / fmt::format("wiki_{:02}", number % files_per_folder);
}

void NumberedFiles::write_line(std::string_view line) {
  if (!folder_.empty() && file_ != nullptr && file_->size() > 0 &&
      file_->size() + line.size() > bytes_) {
    finish_file();
  }
  if (file_ == nullptr) {
    file_ = std::make_unique<OutputFile>(next_path());
  }
  file_->write(line);
}

void NumberedFiles::finish_file() {
  if (file_ != nullptr) {
    file_->commit();
    file_.reset();
  }
}

void NumberedFiles::commit() {
  finish_file();
  for (unsigned i = 0; i * files_per_folder < count_; ++i) {
    std::error_code error;
    const fs::path name = folder_name(i);
    fs::rename(unfinished_ / name, folder_ / name, error);
    if (error) {
      throw file_error("move into place", unfinished_ / name, error.value());
    }
  }
  if (count_ > 0) {
    sync_folder_of(folder_ / folder_name(0));
  }
}

} // namespace cairn::corpus
