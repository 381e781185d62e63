#include "cli/train/growing_file.h"

namespace cairn::cli {

std::optional<std::string> GrowingFile::next() {
  if (!file_.is_open()) {
    file_.open(path_);
  }
  std::string text;
  file_.clear(); // it may have grown since the end was seen
  if (!file_.is_open() || !std::getline(file_, text)) {
    return std::nullopt;
  }
  partial_ += text;
  if (file_.eof()) {
    return std::nullopt; // its end is not written yet
  }
  return std::exchange(partial_, {});
}

} // namespace cairn::cli
