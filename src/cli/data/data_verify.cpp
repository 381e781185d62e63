#include <cairn/base/error.h>
#include <cairn/data/indexed_dataset.h>

#include "base/internal/progress.h"
#include "cli/data/data_command.h"
#include "cli/data/dataset_prefix.h"
#include "cli/program/command_line.h"
#include "data/internal/checksum_list.h"
#include "data/internal/dataset_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

/// The findings, which are printed after everything is read.
class Findings {
 public:
  void note(std::string line) { lines_.push_back(std::move(line)); }
  void fault(const std::string& what) {
    note("FAULT  " + what);
    ++faults_;
  }
  int faults() const { return faults_; }
  void print() const {
    for (const auto& line : lines_) {
      fmt::print("{}\n", line);
    }
    std::fflush(stdout);
  }

 private:
  std::vector<std::string> lines_;
  int faults_ = 0;
};

void check_ids(
    const data::IndexedDataset& dataset,
    std::int64_t vocab_size,
    Findings& findings) {
  const auto range = data::id_range(dataset);
  const bool fits =
      range.least >= 0 && (vocab_size == 0 || range.most < vocab_size);
  findings.note(fmt::format(
      "{:<6} {}: {} documents, {} sequences, {} tokens of {}, ids {} to {}",
      fits ? "ok" : "read",
      dataset.prefix().string(),
      dataset.document_count(),
      dataset.sequence_count(),
      dataset.token_count(),
      name_of(dataset.type()),
      range.least,
      range.most));
  if (range.least < 0) {
    findings.fault(fmt::format(
        "{}: the id {} is negative",
        dataset.prefix().string(),
        range.least));
  }
  if (vocab_size > 0 && range.most >= vocab_size) {
    findings.fault(fmt::format(
        "{}: the id {} is outside the vocabulary of {}",
        dataset.prefix().string(),
        range.most,
        vocab_size));
  }
}

std::vector<data::FileChecksum> checksums_of(
    const std::vector<std::filesystem::path>& files) {
  std::uint64_t total = 0;
  for (const auto& file : files) {
    total += std::filesystem::file_size(file);
  }
  Progress bar({.label = "checksums", .total = total, .unit = "B"});
  std::vector<data::FileChecksum> sums;
  for (const auto& file : files) {
    sums.push_back(data::checksum_of(file, [&](std::uint64_t bytes) {
      bar.advance(bytes);
    }));
  }
  bar.done();
  return sums;
}

void compare(
    const std::vector<data::FileChecksum>& now,
    const std::filesystem::path& list,
    Findings& findings) {
  const auto recorded = data::read_checksums(list);
  for (const auto& sum : now) {
    const auto before =
        std::find_if(recorded.begin(), recorded.end(), [&](const auto& one) {
          return one.name == sum.name;
        });
    if (before == recorded.end()) {
      findings.fault(fmt::format("{}: not in {}", sum.name, list.string()));
    } else if (*before != sum) {
      findings.fault(fmt::format(
          "{}: has changed: {:08x} of {} bytes is recorded",
          sum.name,
          before->crc,
          before->size));
    }
  }
}

} // namespace

int run_data_verify(const Arguments& arguments) {
  CommandLine line(
      "cairn data verify PREFIX… [--against FILE | --write FILE]",
      "cairn data verify data/wiki_text_document --write data/wiki.crc32c");
  std::vector<std::string> typed;
  std::filesystem::path against;
  std::filesystem::path write;
  std::int64_t vocab_size = 0;
  CLI::App& app = line.app();
  app.description(
      "Checks the structure of token files, reads every id and prints the\n"
      "CRC-32C of both files. Exit code 1 when something is wrong.");
  app.add_option("prefixes", typed, "prefixes of .bin and .idx pairs")
      ->type_name("PREFIX")
      ->required();
  auto* write_option =
      app.add_option("--write", write, "record the checksums in this file")
          ->type_name("FILE");
  app.add_option("--against", against, "compare with checksums recorded before")
      ->type_name("FILE")
      ->excludes(write_option);
  app.add_option(
         "--vocab-size",
         vocab_size,
         "ids from here on are a fault as well")
      ->check(at_least(1));
  if (!line.parse(arguments)) {
    return exit_ok;
  }

  std::vector<std::filesystem::path> files;
  Findings findings;
  for (const auto& word : typed) {
    const auto prefix = dataset_prefix(word);
    try {
      const data::IndexedDataset dataset(prefix);
      check_ids(dataset, vocab_size, findings);
    } catch (const DataError& error) {
      findings.fault(error.what());
    }
    for (const auto& file :
         {data::tokens_path(prefix), data::index_path(prefix)}) {
      // A missing file is reported already.
      if (std::filesystem::is_regular_file(file)) {
        files.push_back(file);
      }
    }
  }
  const auto sums = checksums_of(files);
  for (std::size_t i = 0; i < files.size(); ++i) {
    findings.note(fmt::format(
        "crc32c {:08x}  {} bytes  {}",
        sums[i].crc,
        sums[i].size,
        files[i].string()));
  }
  if (!against.empty()) {
    compare(sums, against, findings);
  }
  if (!write.empty() && findings.faults() == 0) {
    data::write_checksums(write, sums);
    findings.note("wrote  " + write.string());
  }
  findings.print();
  if (findings.faults() > 0) {
    throw DataError(
        {.what = fmt::format(
             "{} fault{} found",
             findings.faults(),
             findings.faults() == 1 ? "" : "s")});
  }
  return exit_ok;
}

} // namespace cairn::cli
