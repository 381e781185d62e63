#include "cli/command_line.h"
#include "cli/data_command.h"
#include "corpus/http_get.h"

#include <cairn/base/edit_distance.h>
#include <cairn/base/error.h>
#include <cairn/base/log.h>
#include <cairn/base/progress.h>
#include <cairn/corpus/download.h>
#include <cairn/corpus/download_catalogue.h>
#include <cairn/corpus/unpack_archive.h>

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

using corpus::CatalogueEntry;
using corpus::CatalogueFile;

struct Options {
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

class Bar : public corpus::DownloadWatcher {
 public:
  explicit Bar(std::string label) : label_(std::move(label)) {}

  // The bar is of what is still to come, so that its rate is the network's.
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
    if (progress_) { // not when the last run had brought it all
      progress_->done();
    }
  }

 private:
  std::string label_;
  std::optional<Progress> progress_;
};

void print_catalogue(const std::vector<CatalogueEntry>& catalogue) {
  for (const auto& entry : catalogue) {
    fmt::print("{:<27} {}\n", entry.name, entry.summary);
    for (const auto& file : entry.files) {
      const auto path = std::filesystem::path(entry.folder) / file.name;
      const char* const sum = !file.sha256.empty() ? "checksum known"
          : !file.sums_address.empty() ? "checksum published beside it"
                                       : "no checksum published";
      fmt::print(
          "{:<27}   {}{}, {}\n",
          "",
          path.string(),
          entry.unpacked.empty() ? "" : " (unpacked)",
          sum);
    }
  }
}

CatalogueEntry find_entry(
    const std::vector<CatalogueEntry>& catalogue,
    const std::string& name) {
  if (name.find("://") != name.npos) {
    return {
        .name = name,
        .summary = {},
        .files = {{.name = corpus::file_name_of(name), .addresses = {name}}}};
  }
  std::vector<std::string_view> names;
  for (const auto& entry : catalogue) {
    if (entry.name == name) {
      return entry;
    }
    names.push_back(entry.name);
  }
  const auto closest = nearest(name, names);
  throw ConfigError(
      {.what = fmt::format("there is no \"{}\" to download", name),
       .remedy = closest
           ? fmt::format("did you mean \"{}\"?", *closest)
           : std::string("`cairn data download --list` shows what there is; "
                         "an address starts with https://")});
}

/// As the program curl does it, for networks whose proxy has its own.
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

std::filesystem::path folder_of(
    const Options& options,
    const CatalogueEntry& entry) {
  return entry.folder.empty() ? options.output : options.output / entry.folder;
}

/// The second would be taken for the first, there already.
void check_distinct(
    const Options& options,
    const std::vector<CatalogueEntry>& entries) {
  std::map<std::filesystem::path, std::string> owners;
  for (const auto& entry : entries) {
    for (const auto& file : entry.files) {
      const auto path = folder_of(options, entry) / file.name;
      const auto [owner, fresh] =
          owners.emplace(path.lexically_normal(), entry.name);
      if (!fresh) {
        throw ConfigError(
            {.what = fmt::format(
                 "{} and {} would be the same file",
                 corpus::shown_address(owner->second),
                 corpus::shown_address(entry.name)),
             .where = path.string(),
             .remedy = "fetch them one by one, each with its own --output"});
      }
    }
  }
}

void check_sum_flags(
    const Options& options,
    const std::vector<CatalogueEntry>& entries) {
  std::size_t files = 0;
  bool listed = false;
  for (const auto& entry : entries) {
    files += entry.files.size();
    for (const auto& file : entry.files) {
      listed = listed || !file.sums_address.empty();
    }
  }
  if (!options.sha256.empty()) {
    corpus::sha256_checksum(options.sha256);
    if (files != 1) {
      throw ConfigError(
          {.what = fmt::format("--sha256 is of one file, here are {}", files),
           .remedy = "name one of a single file"});
    }
  }
  if (options.unchecked && (!listed || !options.sha256.empty())) {
    throw ConfigError(
        {.what = "--unchecked is for files whose sums are published beside "
                 "them, as wikipedia's, and not with --sha256",
         .remedy = "leave it out"});
  }
}

class Downloads {
 public:
  explicit Downloads(const Options& options) : options_(options) {
    download_.attempts = options.attempts;
    download_.stall_timeout = std::chrono::seconds(options.timeout);
    download_.certificates = certificates_from_environment();
  }

  void bring(const CatalogueEntry& entry) {
    const auto folder = folder_of(options_, entry);
    if (is_unpacked(entry, folder)) {
      if (!options_.sha256.empty()) {
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

 private:
  bool is_unpacked(
      const CatalogueEntry& entry,
      const std::filesystem::path& folder) const {
    return !options_.force && !entry.unpacked.empty() &&
        std::all_of(
            entry.unpacked.begin(),
            entry.unpacked.end(),
            [&](const auto& name) {
              return std::filesystem::exists(folder / name);
            });
  }

  /// The sum is of the archive, not of what came out of it.
  void check_archive(
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

  std::vector<std::string> addresses(
      const std::vector<std::string>& own,
      const std::string& name) const {
    std::vector<std::string> all;
    if (!options_.mirror.empty()) {
      all.push_back(at_mirror(options_.mirror, name));
    }
    all.insert(all.end(), own.begin(), own.end());
    return all;
  }

  /// What the user demands, else what is known, else what the publisher lists.
  std::optional<corpus::Checksum> expected(const CatalogueFile& file) const {
    if (!options_.sha256.empty()) {
      return corpus::sha256_checksum(options_.sha256);
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
      if (!options_.unchecked) {
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

  corpus::Checksum published(const CatalogueFile& file) const {
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

  void bring(const CatalogueFile& file, const std::filesystem::path& path) {
    Bar bar(file.name);
    auto options = download_;
    options.watcher = &bar;
    const corpus::DownloadRequest request{
        .addresses = addresses(file.addresses, file.name),
        .path = path,
        .expected = expected(file),
        .size = options_.sha256.empty() ? file.size : std::nullopt,
        .replace = options_.force};
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

  const Options& options_;
  corpus::DownloadOptions download_;
  Logger log_;
};

} // namespace

int run_data_download(const Arguments& arguments) {
  Options options;
  CommandLine line(
      "cairn data download NAME… [FLAGS…]",
      "cairn data download gpt2 wikitext-2 --output data");
  auto& app = line.app();
  app.add_option(
      "name",
      options.names,
      "of the list, or an address: https://…");
  app.add_flag("--list", options.list, "show every name and its files");
  app.add_option("--output", options.output, "folder, made if need be (here)")
      ->type_name("DIR");
  app.add_option(
      "--language",
      options.language,
      "Wikipedia's: en, de, zh, … (en)");
  app.add_option(
         "--mirror",
         options.mirror,
         "address of a folder to look in first")
      ->type_name("URL");
  app.add_option("--sha256", options.sha256, "what a single file must have")
      ->type_name("HEX");
  app.add_option(
         "--retries",
         options.attempts,
         "attempts in a row that may bring nothing (6)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--timeout", options.timeout, "seconds without a byte (30)")
      ->check(CLI::Range(1, 3600));
  app.add_flag(
      "--unchecked",
      options.unchecked,
      "take a file also when its published sum cannot be had");
  app.add_flag("--force", options.force, "fetch what is there already");
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  const auto catalogue = corpus::download_catalogue(
      options.language.empty() ? "en" : options.language);
  if (options.list) {
    print_catalogue(catalogue);
    return exit_ok;
  }
  if (options.names.empty()) {
    throw ConfigError(
        {.what = "nothing is named to download",
         .remedy = "`cairn data download --list` shows what there is"});
  }
  std::vector<CatalogueEntry> entries;
  for (const auto& name : options.names) {
    entries.push_back(find_entry(catalogue, name));
  }
  if (!options.language.empty() &&
      std::find(options.names.begin(), options.names.end(), "wikipedia") ==
          options.names.end()) {
    throw ConfigError(
        {.what = "--language is Wikipedia's, and wikipedia is not named"});
  }
  check_sum_flags(options, entries);
  check_distinct(options, entries);
  // A connection that breaks while we write to it is an error, not our end.
  std::signal(SIGPIPE, SIG_IGN);
  Downloads downloads(options);
  for (const auto& entry : entries) {
    downloads.bring(entry);
  }
  return exit_ok;
}

} // namespace cairn::cli
