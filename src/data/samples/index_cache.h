#pragma once

#include <cairn/base/log.h>
#include <cairn/data/built_datasets.h>
#include <cairn/data/data_selection.h>
#include <cairn/data/index_array.h>

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::data {

/// A folder with index arrays, under Megatron's or Megatron-DeepSpeed's names.
///
/// Files appear as a whole, and one process of a machine makes them while the
/// other processes wait, so no rank depends on another rank. Several threads
/// may use one cache.
class IndexCache {
 public:
  struct Key {
    std::string class_name; ///< Megatron's, as "GPTDataset"
    /// Part of the file names; Megatron leaves it out for masked datasets.
    std::optional<Split> split = Split::train;
    std::string description{};         ///< the text whose MD5 names the files
    std::vector<std::string> arrays{}; ///< "document_index", …
    IndexNaming naming = IndexNaming::megatron;
  };
  /// Arrays for the names in Key::arrays, in that order.
  using Arrays = std::vector<IndexArray>;

  struct Result {
    Arrays arrays;
    IndexOrigin origin = IndexOrigin::built_in_memory;
    std::filesystem::path file{}; ///< the path up to the stem
  };

  IndexCache(std::filesystem::path folder, Logger logger);

  /// Returns the arrays from the key's files, or from files whose description
  /// differs only in the tokenizer. Otherwise returns the arrays that `build`
  /// makes, after storing them. `misfit` says what is wrong with arrays from a
  /// file, or returns an empty text; files that do not fit are replaced. A
  /// folder that cannot be written is no error.
  Result get(
      const Key& key,
      const std::function<std::string(const Arrays&)>& misfit,
      const std::function<Arrays()>& build);

  /// True when all files of the key exist.
  bool has(const Key& key) const;

 private:
  enum class WhenUnfit { warn, say_nothing };
  std::optional<Result> load(
      const Key& key,
      const std::string& stem,
      const std::function<std::string(const Arrays&)>& misfit,
      WhenUnfit when_unfit = WhenUnfit::warn) const;
  std::optional<std::string> equivalent_stem(const Key& key);
  bool store(const Key& key, const std::string& stem, const Arrays& arrays)
      const;
  bool has(const Key& key, const std::string& stem) const;
  std::filesystem::path file(const std::string& stem, std::string_view suffix)
      const;
  std::filesystem::path description_file(
      const Key& key,
      const std::string& stem) const;
  std::vector<std::filesystem::path> array_files(
      const Key& key,
      const std::string& stem) const;

  std::filesystem::path folder_;
  Logger logger_;
  std::mutex mutex_;
  /// The stem of every description in the folder, by its comparable() text.
  /// Read once, since a blend may have thousands.
  std::optional<std::map<std::string, std::string>> known_;
};

/// Megatron's default folder for a dataset's indices:
/// PREFIX/cache/GPTDataset_indices. Megatron-DeepSpeed has one folder for all
/// datasets in a folder: index-cache.
std::filesystem::path default_index_folder(
    const std::filesystem::path& prefix,
    std::string_view class_name,
    IndexNaming naming = IndexNaming::megatron);

} // namespace cairn::data
