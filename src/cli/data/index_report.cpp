#include "cli/data/index_report.h"

#include "cli/data/peak_memory.h"
#include "cli/program/byte_size.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

namespace cairn::cli {
namespace {

std::string_view name_of(data::IndexOrigin origin) {
  switch (origin) {
    case data::IndexOrigin::file:
      return "was there";
    case data::IndexOrigin::built:
      return "built";
    case data::IndexOrigin::built_in_memory:
      break;
  }
  return "not kept";
}

} // namespace

void IndexReport::print_table() const {
  std::vector<std::array<std::string, 9>> rows{
      {"dataset",
       "split",
       "documents",
       "tokens",
       "epochs",
       "samples",
       "index",
       "seconds",
       ""}};
  for (const data::DatasetPart& part : parts) {
    rows.push_back(
        {part.prefix,
         std::string(data::name_of(part.split)),
         fmt::format("{}", part.documents.size()),
         fmt::format("{}", part.tokens),
         part.epochs ? fmt::format("{}", *part.epochs) : "-",
         fmt::format("{}", part.samples),
         shown_byte_size(part.bytes),
         fmt::format("{:.3f}", part.seconds),
         std::string(name_of(part.origin))});
  }
  std::array<std::size_t, 9> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const auto& row : rows) {
    fmt::print("{:<{}}  {:<{}}", row[0], widths[0], row[1], widths[1]);
    for (std::size_t i = 2; i < 8; ++i) {
      fmt::print("  {:>{}}", row[i], widths[i]);
    }
    fmt::print("{}{}\n", row[8].empty() ? "" : "  ", row[8]);
  }
}

void IndexReport::print_splits() const {
  for (const SplitSize& split : splits) {
    fmt::print("{:<9} {} samples", data::name_of(split.split), split.samples);
    if (split.blended_from > 0) {
      fmt::print(", blended from {}", split.blended_from);
    } else if (split.samples == 0) {
      fmt::print(
          ": too few tokens for one; its files are there, as Megatron's would "
          "be");
    }
    fmt::print("\n");
  }
}

void IndexReport::print() const {
  print_table();
  fmt::print("\n");
  print_splits();
  std::set<std::string> folders;
  for (const data::DatasetPart& part : parts) {
    if (!part.file.empty()) {
      folders.insert(part.file.parent_path().string());
    }
  }
  for (const std::string& folder : folders) {
    fmt::print("files in  {}\n", folder);
  }
  const bool blended = std::ranges::any_of(splits, [](const SplitSize& split) {
    return split.blended_from > 0;
  });
  if (blended) {
    fmt::print("blending  {:.3f} s\n", blend_seconds);
  }
  fmt::print(
      "memory    {} at most\nchecksum  {:016x}\n",
      shown_byte_size(peak_memory()),
      checksum);
}

void IndexReport::require_a_sample(std::int64_t sequence_length) const {
  std::int64_t most = 0;
  for (const data::DatasetPart& part : parts) {
    most = std::max(most, part.tokens);
    if (part.samples > 0) {
      return;
    }
  }
  if (parts.empty()) { // no dataset was asked for
    return;
  }
  throw DataError(
      {.what = "the data is too short for a single sample",
       .values = fmt::format(
           "{} tokens at most in a split, --seq-length {}",
           most,
           sequence_length),
       .remedy = "lower --seq-length"});
}

void IndexReport::require_files() const {
  const bool kept = blends_kept &&
      std::ranges::none_of(parts, [](const data::DatasetPart& part) {
                      return part.origin == data::IndexOrigin::built_in_memory;
                    });
  if (!kept) {
    throw DataError(
        {.what = "not all index files could be kept",
         .remedy = "see the warnings above; --data-cache-path names another "
                   "folder"});
  }
}

} // namespace cairn::cli
