#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::corpus {

struct CatalogueFile {
  std::string name;                   ///< name of the local file
  std::vector<std::string> addresses; ///< tried in this order
  std::string sha256{};               ///< empty: none has been published
  std::optional<std::uint64_t> size{};
  /// Address of the publisher's list of SHA-1 sums, for a file that changes;
  /// empty: there is none.
  std::string sums_address{};
  std::string sums_suffix{}; ///< end of the file's name in that list
};

/// A dataset or vocabulary that `cairn data download` knows by name.
struct CatalogueEntry {
  std::string name;
  std::string summary;
  std::vector<CatalogueFile> files;
  std::string folder{}; ///< below the output folder
  /// Files that the archive must contain; empty: the files are no archives.
  std::vector<std::string> unpacked{};
  std::string next{}; ///< what to do with the files
};

/// All entries. `language` is Wikipedia's code, such as "en" or "zh-yue";
/// throws ConfigError if it cannot be one.
std::vector<CatalogueEntry> download_catalogue(const std::string& language);

/// The SHA-1 of the one file in a list (`sum  name` lines) whose name ends in
/// `suffix`; empty when there is none or more than one.
std::optional<std::string> listed_sum(
    const std::string& list,
    const std::string& suffix);

} // namespace cairn::corpus
