#include "cli/data/lists_in.h"

#include <cairn/base/error.h>

#include <algorithm>

namespace cairn::cli {
namespace fs = std::filesystem;

std::vector<fs::path> lists_in(const std::vector<fs::path>& inputs) {
  std::vector<fs::path> files;
  for (const fs::path& input : inputs) {
    if (!fs::is_directory(input)) {
      files.push_back(input);
      continue;
    }
    std::vector<fs::path> inside;
    for (const auto& entry : fs::directory_iterator(input)) {
      if (entry.path().extension() == ".txt") {
        inside.push_back(entry.path());
      }
    }
    if (inside.empty()) {
      throw DataError(
          {.what = "there is no .txt file in the folder",
           .where = input.string(),
           .remedy = "name the lists themselves"});
    }
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

} // namespace cairn::cli
