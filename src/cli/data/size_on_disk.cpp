#include "cli/data/size_on_disk.h"

#include <system_error>

namespace cairn::cli {

std::uint64_t size_on_disk(std::span<const std::filesystem::path> files) {
  std::uint64_t sum = 0;
  for (const auto& file : files) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    if (error) {
      return 0;
    }
    sum += size;
  }
  return sum;
}

} // namespace cairn::cli
