#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::data {

enum class Split { train, valid, test };

inline constexpr std::array all_splits{Split::train, Split::valid, Split::test};

std::string_view name_of(Split split);
inline std::size_t index_of(Split split) {
  return static_cast<std::size_t>(split);
}

/// Elements [begin, end) of a dataset.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const noexcept { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

/// The parts of the data for training, validation and test, as in --split:
/// `949,50,1`, in any unit. Rounded to elements as in Megatron, so that both
/// train on the same documents.
class SplitShares {
 public:
  struct Range { ///< fractions of the whole
    double begin = 0.0;
    double end = 0.0;
    bool operator==(const Range&) const = default;
  };

  /// Throws ConfigError unless the text is one to three numbers, not all zero.
  static SplitShares parse(std::string_view text);
  /// Gives everything to one split (--train-data-path and its like).
  static SplitShares only(Split split);

  /// The text given to parse(); empty after only().
  const std::optional<std::string>& text() const noexcept { return text_; }
  /// The range of a split; empty when its share is zero.
  const std::optional<Range>& range(Split split) const {
    return ranges_[index_of(split)];
  }
  /// The elements, out of `count`, of a split; empty when its share is zero.
  std::optional<ElementRange> elements(Split split, std::size_t count) const;
  /// The elements of a split as Megatron-DeepSpeed counts them, which is
  /// sometimes one more or less: it rounds each share by itself and lets
  /// training absorb the difference.
  std::optional<ElementRange> deepspeed_elements(Split split, std::size_t count)
      const;

 private:
  std::optional<std::string> text_;
  std::array<std::optional<Range>, 3> ranges_;
  std::array<double, 3> parts_{}; ///< their sum is 1
};

/// Datasets to be mixed, as --data-path gives them: `A`, `A B C`, or weights
/// and prefixes in turn, `0.3 A 0.7 B`. Without weights, datasets are weighted
/// by their size.
struct Blend {
  std::vector<std::string> prefixes;
  std::optional<std::vector<double>> weights{}; ///< as given, not normalized

  /// Parses the words of --data-path. A word may itself hold several, separated
  /// by spaces, so that a quoted list works too. Throws ConfigError.
  static Blend parse(std::span<const std::string> words);
  bool operator==(const Blend&) const = default;
};

/// The number of samples wanted from a split; empty: those of one epoch.
using SampleCount = std::optional<std::int64_t>;
using SampleCounts = std::array<SampleCount, 3>; ///< by Split

/// Rounding of weight * samples - taken, the number of samples by which a
/// dataset is behind. Ties are common (0.1, 0.2, 0.3, 0.4), so the last bit
/// decides. Megatron leaves the rounding to its compiler, which rounds once on
/// Arm and twice on x86-64, so its blends differ between the two.
enum class BlendRounding {
  once, ///< as on Arm
  twice ///< as on x86-64
};

/// The rounding of Megatron on machines like this one.
BlendRounding native_blend_rounding();

/// The weights divided by their sum, which is taken in numpy's order.
std::vector<double> normalized(std::span<const double> weights);

/// The number of samples to take from a dataset with this (normalized) weight,
/// with some surplus: rounded up twice, as Megatron does.
std::int64_t share_of_samples(
    std::int64_t samples,
    double weight,
    double surplus);
/// The number of samples as Megatron-DeepSpeed computes it: rounded up once.
std::int64_t deepspeed_share_of_samples(
    std::int64_t samples,
    double weight,
    double surplus);

/// The names of index files, and how splits and blends are counted.
enum class IndexNaming {
  /// <md5>-GPTDataset-train-description.txt
  /// <md5>-GPTDataset-train-document_index.npy
  megatron,
  /// <md5>.dsc
  /// <md5>_doc_idx.npy
  megatron_deepspeed
};

/// The data that a run trains, validates and tests on, the amount of each, and
/// where their order is kept. Common to all kinds of datasets.
struct DataSelection {
  /// Datasets divided by `split` (--data-path); empty when `blend_per_split` is
  /// given.
  std::optional<Blend> blend{};
  /// Shares of training, validation and test. They are part of index file
  /// names, so the default is spelled as Megatron spells it.
  std::string split = "969, 30, 1";
  /// Datasets of each split: --train-data-path, --valid-data-path and
  /// --test-data-path.
  std::array<std::optional<Blend>, 3> blend_per_split{};

  /// Samples to make at least; 0: the split has no dataset.
  SampleCounts samples{};
  /// Extra samples, relative to its share, that each dataset of a blend gets
  /// (--mid-level-dataset-surplus).
  double surplus = 0.005;
  BlendRounding blend_rounding = native_blend_rounding();

  /// Folder for index files (--data-cache-path). Empty: default_index_folder()
  /// of each dataset, and blends are not stored.
  std::optional<std::filesystem::path> cache_path{};
  /// Naming scheme and folders of index files. With Megatron-DeepSpeed's,
  /// splits and blends are counted as in Megatron-DeepSpeed; GPT only.
  IndexNaming index_naming = IndexNaming::megatron;
  /// Megatron's description of its tokenizer (JSON), or a whole description.txt
  /// that Megatron wrote. New files then have the names that Megatron looks
  /// for.
  std::string tokenizer_description = "null";
};

} // namespace cairn::data
