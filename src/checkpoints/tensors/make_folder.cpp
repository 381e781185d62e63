#include "checkpoints/tensors/make_folder.h"

#include <cairn/base/error.h>

#include <system_error>

namespace cairn::checkpoints {

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw DataError(
        {.what = "the folder cannot be made",
         .where = folder.string(),
         .values = error.message()});
  }
}

} // namespace cairn::checkpoints
