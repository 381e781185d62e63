#include "base/system_text.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <cstdint>

namespace cairn::inline base {

std::string system_text(const std::filesystem::path& path) {
  constexpr std::uint64_t longest_file = 16 << 20;
  try {
    return read_file(path, longest_file);
  } catch (const DataError&) {
    return {};
  }
}

} // namespace cairn::base
