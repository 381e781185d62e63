#pragma once

#include "corpus/internal/download.h"
#include "corpus/internal/download_catalogue.h"

#include <cairn/base/log.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cairn::cli {

/// What `cairn data download` is told.
struct DownloadFlags {
  std::vector<std::string> names;
  std::filesystem::path output = ".";
  std::string language; ///< empty: not given, en
  std::string mirror;
  std::string sha256;
  int attempts = 6;
  int timeout = 30;
  bool list = false;
  bool force = false;
  bool unchecked = false;
};

/// Where the files of an entry go.
std::filesystem::path folder_of(
    const DownloadFlags& flags,
    const corpus::CatalogueEntry& entry);

/// Brings entries of the catalogue, checked and unpacked, and prints what came.
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
