#include "io/unnamed_file.h"

#include "base/internal/file_error.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

namespace cairn::io::detail {
namespace {

constexpr std::string_view prefix = ".cairn-nvme-";

// Removes files that a killed process left. Another process may be between its
// create and its unlink: removing its name early does no harm.
void remove_leftovers(const std::filesystem::path& folder) {
  std::error_code stop;
  for (std::filesystem::directory_iterator entry(folder, stop), end;
       !stop && entry != end;
       entry.increment(stop)) {
    if (entry->path().filename().string().starts_with(prefix)) {
      ::unlink(entry->path().c_str());
    }
  }
}

} // namespace

UniqueFd open_unnamed(const std::filesystem::path& folder) {
  UniqueFd file(
      ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600));
  if (!file) {
    if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL) {
      return create_and_unlink(folder);
    }
    throw file_error("make a file in this folder", folder, errno);
  }
  return file;
}

UniqueFd create_and_unlink(const std::filesystem::path& folder) {
  remove_leftovers(folder);
  std::string pattern = (folder / prefix).string() + "XXXXXX";
  UniqueFd file(::mkostemp(pattern.data(), O_CLOEXEC));
  if (!file) {
    throw file_error("make a file in this folder", folder, errno);
  }
  if (::unlink(pattern.c_str()) != 0 && errno != ENOENT) {
    throw file_error("remove a file's name", pattern, errno);
  }
  return file;
}

} // namespace cairn::io::detail
