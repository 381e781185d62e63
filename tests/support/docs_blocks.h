#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace cairn::testing {

/// The texts between "```KIND" and "```" on a page of docs.
inline std::vector<std::string> blocks_of(
    const std::filesystem::path& page,
    const std::string& kind) {
  std::ifstream text(page);
  std::vector<std::string> blocks;
  bool inside = false;
  bool wanted = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) {
      inside = !inside;
      wanted = inside && line == "```" + kind;
      if (wanted) {
        blocks.emplace_back();
      }
    } else if (wanted) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

} // namespace cairn::testing
