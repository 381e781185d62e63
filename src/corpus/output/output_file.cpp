#include "corpus/internal/output_file.h"

#include <cairn/base/file.h>

#include <fcntl.h>

#include <span>
#include <system_error>

namespace cairn::corpus {
namespace fs = std::filesystem;

OutputFile::OutputFile(const fs::path& path) : path_(path) {
  if (path == "-") {
    path_ = "standard output";
    return;
  }
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_fifo(status) || fs::is_character_file(status)) {
    opened_ = open_file(path, O_WRONLY);
    stream_ = opened_.get();
  } else {
    file_.emplace(path);
  }
}

void OutputFile::write(std::string_view text) {
  if (file_) {
    file_->write(text);
  } else {
    write_all(stream_, std::as_bytes(std::span(text)), path_);
  }
  size_ += text.size();
}

void OutputFile::commit() {
  if (file_) {
    file_->commit();
  }
}

fs::path OutputFile::folder() const {
  return file_ ? fs::absolute(path_).parent_path() : fs::temp_directory_path();
}

} // namespace cairn::corpus
