#include "cli/data/entry_downloader.h"

#include "base/internal/progress.h"
#include "corpus/internal/unpack_archive.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <utility>

namespace cairn::cli {
namespace {

using corpus::CatalogueEntry;
using corpus::CatalogueFile;

class Bar : public corpus::DownloadWatcher {
 public:
  explicit Bar(std::string label) : label_(std::move(label)) {}

  // The bar counts only the bytes still to come: its rate is the network's.
  void begin(std::uint64_t from, std::uint64_t total) override {
    progress_.emplace(Progress::Options{
        .label = from == 0 ? label_
                           : fmt::format(
                                 "{} from {:.1f} MB",
                                 label_,
                                 static_cast<double>(from) / 1e6),
        .total = total > from ? total - from : 0,
        .unit = "B"});
  }
  void advance(std::uint64_t bytes) override { progress_->advance(bytes); }
  void interrupted() override { progress_.reset(); }
  void complete() override {
    if (progress_) { // not when an earlier run had downloaded it all
      progress_->done();
    }
  }

 private:
  std::string label_;
  std::optional<Progress> progress_;
};

/// The certificates of curl's variables, for networks whose proxy has its own.
std::string certificates_from_environment() {
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    if (const char* const file = std::getenv(name);
        file != nullptr && *file != '\0') {
      return file;
    }
  }
  return {};
}

std::string at_mirror(std::string mirror, const std::string& name) {
  if (!mirror.ends_with('/')) {
    mirror += '/';
  }
  return mirror + name;
}

} // namespace

std::filesystem::path folder_of(
    const DownloadFlags& flags,
    const CatalogueEntry& entry) {
  return entry.folder.empty() ? flags.output : flags.output / entry.folder;
}

EntryDownloader::EntryDownloader(const DownloadFlags& flags) : flags_(flags) {
  download_.attempts = flags.attempts;
  download_.stall_timeout = std::chrono::seconds(flags.timeout);
  download_.certificates = certificates_from_environment();
}

void EntryDownloader::bring(const CatalogueEntry& entry) {
  const auto folder = folder_of(flags_, entry);
  if (is_unpacked(entry, folder)) {
    if (!flags_.sha256.empty()) {
      check_archive(entry, folder);
      return;
    }
    fmt::print(
        "{}: there already, unpacked; --force fetches it again\n",
        folder.string());
    return;
  }
  for (const auto& file : entry.files) {
    const auto path = folder / file.name;
    bring(file, path);
    if (!entry.unpacked.empty()) {
      for (const auto& member : corpus::unpack_archive(path, folder)) {
        fmt::print("  unpacked {}\n", member.string());
      }
      fmt::print("  {} is not needed any more\n", path.string());
    }
  }
  if (!entry.next.empty()) {
    fmt::print("next: {}\n", entry.next);
  }
}

bool EntryDownloader::is_unpacked(
    const CatalogueEntry& entry,
    const std::filesystem::path& folder) const {
  return !flags_.force && !entry.unpacked.empty() &&
      std::all_of(
          entry.unpacked.begin(),
          entry.unpacked.end(),
          [&](const auto& name) {
            return std::filesystem::exists(folder / name);
          });
}

/// Checks the archive again: --sha256 is its sum, not that of unpacked files.
void EntryDownloader::check_archive(
    const CatalogueEntry& entry,
    const std::filesystem::path& folder) {
  const auto& file = entry.files.front();
  const auto path = folder / file.name;
  if (!std::filesystem::exists(path)) {
    throw DataError(
        {.what = "the unpacked files are there, but not the archive that "
                 "--sha256 is of",
         .where = path.string(),
         .remedy = "leave --sha256 out, or fetch it again with --force"});
  }
  bring(file, path);
}

std::vector<std::string> EntryDownloader::addresses(
    const std::vector<std::string>& own,
    const std::string& name) const {
  std::vector<std::string> all;
  if (!flags_.mirror.empty()) {
    all.push_back(at_mirror(flags_.mirror, name));
  }
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

/// The checksum that the user gives, else the known one, else the publisher's.
std::optional<corpus::Checksum> EntryDownloader::expected(
    const CatalogueFile& file) const {
  if (!flags_.sha256.empty()) {
    return corpus::sha256_checksum(flags_.sha256);
  }
  if (!file.sha256.empty()) {
    return corpus::sha256_checksum(file.sha256);
  }
  if (file.sums_address.empty()) {
    return std::nullopt;
  }
  try {
    return published(file);
  } catch (const DataError& error) {
    if (!flags_.unchecked) {
      Problem problem = error.problem();
      problem.remedy += fmt::format(
          "{}{} is not taken unchecked: give its sum with --sha256, or "
          "--unchecked to go on without",
          problem.remedy.empty() ? "" : "\n",
          file.name);
      throw DataError(std::move(problem));
    }
    log_.warning("{}", error.what());
    return std::nullopt;
  }
}

corpus::Checksum EntryDownloader::published(const CatalogueFile& file) const {
  constexpr std::size_t most = 4 << 20;
  const auto list = corpus::download_text(
      addresses({file.sums_address}, corpus::file_name_of(file.sums_address)),
      most,
      download_,
      log_);
  const auto sum = corpus::listed_sum(list, file.sums_suffix);
  if (!sum) {
    throw DataError(
        {.what = fmt::format("lists no sum of {}", file.name),
         .where = file.sums_address});
  }
  return {corpus::Checksum::Kind::sha1, *sum};
}

void EntryDownloader::bring(
    const CatalogueFile& file,
    const std::filesystem::path& path) {
  Bar bar(file.name);
  auto options = download_;
  options.watcher = &bar;
  const corpus::DownloadRequest request{
      .addresses = addresses(file.addresses, file.name),
      .path = path,
      .expected = expected(file),
      .size = flags_.sha256.empty() ? file.size : std::nullopt,
      .replace = flags_.force};
  const auto report = corpus::download(request, options, log_);
  fmt::print(
      "{}: {}{} bytes, sha256 {}{}\n",
      path.string(),
      report.address.empty() ? "there already, " : "",
      report.size,
      report.sha256,
      !request.expected ? "; no checksum to compare, pin this one with "
                          "--sha256"
          : request.expected->kind == corpus::Checksum::Kind::sha1
          ? ", equal to the published sha1"
          : ", as expected");
}

} // namespace cairn::cli
