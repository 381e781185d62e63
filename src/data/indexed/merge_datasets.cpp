#include "data/internal/merge_datasets.h"

#include <cairn/base/error.h>
#include <cairn/data/indexed_writer.h>

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string>

namespace cairn::data {
namespace {

constexpr std::size_t copied_at_once = 8 << 20;

std::string_view name_of(IndexFormat format) {
  return format == IndexFormat::mmap ? "mmap" : "lazy/cached";
}

void require_same(const IndexedDataset& first, const IndexedDataset& other) {
  if (first.format() != other.format() || first.type() != other.type()) {
    throw DataError(
        {.what = "datasets of different kinds cannot be merged",
         .where = other.prefix().string(),
         .values = fmt::format(
             "{} of {}, but {} is {} of {}",
             name_of(other.format()),
             name_of(other.type()),
             first.prefix().string(),
             name_of(first.format()),
             name_of(first.type())),
         .remedy = "preprocess them with the same tokenizer and "
                   "--dataset-impl"});
  }
}

void copy(
    const IndexedDataset& dataset,
    IndexedWriter& writer,
    const std::function<void(std::uint64_t)>& progress) {
  SequenceBlock block;
  const auto flush = [&] {
    writer.append(block);
    progress(block.tokens.size());
    block.clear();
  };
  const auto documents = dataset.document_indices();
  for (std::size_t i = 0; i < dataset.document_count(); ++i) {
    for (auto s = documents[i]; s < documents[i + 1]; ++s) {
      const auto bytes = dataset.bytes(static_cast<std::size_t>(s));
      block.tokens.insert(block.tokens.end(), bytes.begin(), bytes.end());
      block.lengths.push_back(
          sequence_length(bytes.size() / size_of(dataset.type())));
      if (block.tokens.size() >= copied_at_once) {
        flush();
      }
    }
    block.end_document();
    if (block.document_ends.size() >= copied_at_once / 8) {
      flush();
    }
  }
  flush();
}

} // namespace

std::vector<std::filesystem::path> datasets_in(
    const std::filesystem::path& folder) {
  std::set<std::string> prefixes;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end;
       !error && entry != end;
       entry.increment(error)) {
    const auto& path = entry->path();
    if (path.extension() == ".bin" || path.extension() == ".idx") {
      prefixes.insert((path.parent_path() / path.stem()).string());
    }
  }
  if (error) {
    throw DataError(
        {.what = fmt::format("cannot list: {}", error.message()),
         .where = folder.string()});
  }
  std::vector<std::filesystem::path> found;
  for (const auto& prefix : prefixes) {
    for (const auto& file : {tokens_path(prefix), index_path(prefix)}) {
      if (!std::filesystem::exists(file)) {
        throw DataError(
            {.what = "half of a pair is missing",
             .where = file.string(),
             .remedy = "put it there, or take the other half away"});
      }
    }
    found.emplace_back(prefix);
  }
  if (found.empty()) {
    throw DataError(
        {.what = "holds no pair of .bin and .idx files",
         .where = folder.string()});
  }
  return found;
}

void merge_datasets(
    std::span<const std::filesystem::path> prefixes,
    const std::filesystem::path& output_prefix,
    const std::function<void(std::uint64_t bytes)>& progress) {
  // All datasets are opened once before anything is written, so that a bad one
  // is reported at once. They are not kept open, since there may be more of
  // them than file descriptors.
  const IndexedDataset first(prefixes.front());
  for (const auto& prefix : prefixes) {
    const IndexedDataset dataset(prefix);
    require_same(first, dataset);
    if (dataset.multimodal()) {
      throw DataError(
          {.what = "multimodal datasets cannot be merged here",
           .where = prefix.string(),
           .remedy = "use Megatron's tools/merge_datasets.py --multimodal"});
    }
  }
  IndexedWriter writer(
      output_prefix,
      {.format = first.format(), .type = first.type()});
  for (const auto& prefix : prefixes) {
    const IndexedDataset dataset(prefix);
    copy(dataset, writer, progress);
  }
  writer.commit();
}

} // namespace cairn::data
