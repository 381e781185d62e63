#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace cairn::testing {

/// The names in a folder, in order.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

} // namespace cairn::testing
