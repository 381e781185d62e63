#include "base/internal/edit_distance.h"
#include "cli/data/data_command.h"
#include "cli/data/entry_downloader.h"
#include "cli/program/command_line.h"
#include "corpus/internal/download.h"
#include "corpus/internal/download_catalogue.h"
#include "corpus/internal/web_address.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace cairn::cli {
namespace {

using corpus::CatalogueEntry;

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

/// Refuses entries with equal file names: the second would seem to be there
/// already.
void check_distinct(
    const DownloadFlags& options,
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
    const DownloadFlags& options,
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

} // namespace

int run_data_download(const Arguments& arguments) {
  DownloadFlags options;
  CommandLine line(
      "cairn data download NAME… [FLAGS…]",
      "cairn data download gpt2 wikitext-2 --output data");
  auto& app = line.app();
  app.description(
      "Fetches what the usual recipes start from, by name or address: goes on "
      "where it\nstopped, compares checksums, and unpacks archives.");
  app.add_option(
      "NAME",
      options.names,
      "of the list, or an address: https://…");
  app.add_flag("--list", options.list, "show every name and its files");
  app.add_option(
         "-o,--output",
         options.output,
         "folder, made if need be (here)")
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
  EntryDownloader downloads(options);
  for (const auto& entry : entries) {
    downloads.bring(entry);
  }
  return exit_ok;
}

} // namespace cairn::cli
