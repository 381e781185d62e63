#pragma once

#include "corpus/internal/download.h"
#include "corpus/internal/download_catalogue.h"

#include <cairn/base/log.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cairn::cli {

/// The flags of `cairn data download`.
struct DownloadFlags {
  std::vector<std::string> names;
  std::filesystem::path output = ".";
  std::string language; ///< empty: not given, so "en"
  std::string mirror;
  std::string sha256;
  int attempts = 6;
  int timeout = 30;
  bool list = false;
  bool force = false;
  bool unchecked = false;
};

/// The folder for the files of an entry.
std::filesystem::path folder_of(
    const DownloadFlags& flags,
    const corpus::CatalogueEntry& entry);

/// Downloads entries of the catalogue, checks and unpacks them, and prints the
/// files.
class EntryDownloader {
 public:
  explicit EntryDownloader(const DownloadFlags& flags);

  void bring(const corpus::CatalogueEntry& entry);

 private:
  bool is_unpacked(
      const corpus::CatalogueEntry& entry,
      const std::filesystem::path& folder) const;
  void check_archive(
      const corpus::CatalogueEntry& entry,
      const std::filesystem::path& folder);
  std::vector<std::string> addresses(
      const std::vector<std::string>& own,
      const std::string& name) const;
  std::optional<corpus::Checksum> expected(
      const corpus::CatalogueFile& file) const;
  corpus::Checksum published(const corpus::CatalogueFile& file) const;
  void bring(
      const corpus::CatalogueFile& file,
      const std::filesystem::path& path);

  const DownloadFlags& flags_;
  corpus::DownloadOptions download_;
  Logger log_;
};

} // namespace cairn::cli
