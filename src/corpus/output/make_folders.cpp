#include "corpus/output/make_folders.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <system_error>

namespace cairn::corpus {

void make_folders(const std::filesystem::path& folder) {
  if (folder.empty()) {
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw DataError(
        {.what = fmt::format("cannot make this folder: {}", error.message()),
         .where = folder.string()});
  }
}

} // namespace cairn::corpus
