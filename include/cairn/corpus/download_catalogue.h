#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::corpus {

struct CatalogueFile {
  std::string name;                   ///< as it is called here
  std::vector<std::string> addresses; ///< tried in this order
  std::string sha256{};               ///< empty: nobody has published it
  std::optional<std::uint64_t> size{};
  /// Where the publisher lists SHA-1 sums, for a file that changes; empty:
  /// nowhere.
  std::string sums_address{};
  std::string sums_suffix{}; ///< of its name in that list
};

/// Something that `cairn data download` knows by name.
struct CatalogueEntry {
  std::string name;
  std::string summary;
  std::vector<CatalogueFile> files;
  std::string folder{}; ///< below the output folder
  /// What the archive holds, at least; empty: the files are no archives.
  std::vector<std::string> unpacked{};
  std::string next{}; ///< what to do with it
};

/// Everything there is. `language` is Wikipedia's code, such as "en" or
/// "zh-yue"; a ConfigError when it cannot be one.
std::vector<CatalogueEntry> download_catalogue(const std::string& language);

/// The SHA-1 of the only file in a list (`sum  name` lines) whose name ends in
/// `suffix`; nothing when there is none, or more than one.
std::optional<std::string> listed_sum(
    const std::string& list,
    const std::string& suffix);

} // namespace cairn::corpus
