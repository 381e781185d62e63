#include "base/internal/file_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace cairn::inline base {
namespace {

std::string remedy(int error_number) {
  switch (error_number) {
    case ENOENT:
      return "check the path";
    case EACCES:
    case EPERM:
      return "check the permissions of the file and of its folder";
    case EROFS:
      return "choose a folder on a writable file system";
    case ENOSPC:
      return "free some space on that file system";
    case EDQUOT:
      return "free some of your quota on that file system";
    case EFBIG:
      return "raise the limit on file sizes (ulimit -f), or use another file "
             "system";
    case EMFILE:
      return "raise the limit on open files (ulimit -n)";
    default:
      return {};
  }
}

} // namespace

DataError file_error(
    std::string_view action,
    const std::filesystem::path& path,
    int error_number,
    std::string values) {
  return DataError(
      {.what = fmt::format(
           "cannot {}: {}",
           action,
           std::generic_category().message(error_number)),
       .where = path.string(),
       .values = std::move(values),
       .remedy = remedy(error_number)});
}

} // namespace cairn::base
