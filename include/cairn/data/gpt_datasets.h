#pragma once

#include <cairn/base/log.h>
#include <cairn/data/built_datasets.h>
#include <cairn/data/data_selection.h>
#include <cairn/data/gpt_index.h>
#include <cairn/data/indexed_dataset.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cairn::data {

/// Options for making a left-to-right model's samples from tokens.
struct GptSampleOptions {
  std::int64_t eod = 0;
  /// Id that counts as padding. -1, which no data contains, if the tokenizer
  /// has no padding id or uses it for something else too.
  std::int64_t pad = -1;
  bool reset_position_ids = false; ///< positions start again after an eod
  bool eod_mask_loss = false;      ///< no loss on the token after an eod
};

/// Memory to write a sample to: sequence_length elements each.
struct GptRow {
  std::span<std::int64_t> tokens;
  std::span<std::int64_t> labels; ///< the token after each token
  std::span<float> loss_mask;     ///< 1 where the label counts, else 0
  std::span<std::int64_t> position_ids;
};

/// A row that owns its memory.
struct GptSample {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> labels;
  std::vector<float> loss_mask;
  std::vector<std::int64_t> position_ids;

  GptRow row(std::size_t sequence_length);
};

/// Fills loss_mask and position_ids from tokens and labels. Replaces padding by
/// token 0, which every embedding has.
void finish_gpt_row(const GptRow& row, const GptSampleOptions& options);

/// Finds the first token of each document in a sample, and the sample's end.
/// Attention that stays within documents needs them (--reset-attention-mask).
void document_bounds(
    std::span<const std::int64_t> tokens,
    std::int64_t eod,
    std::vector<std::int32_t>& bounds);

/// Samples of equal length cut from a stream of shuffled documents, in the
/// order of Megatron's GPTDataset. Any number of threads may read.
class GptDataset {
 public:
  using Sample = GptSample;

  /// `where` is the name of the index files in messages.
  GptDataset(
      std::shared_ptr<const IndexedDataset> documents,
      GptIndex index,
      const GptIndexRequest& request,
      const GptSampleOptions& options,
      std::string where = "the index of a dataset");

  std::size_t size() const noexcept { return index_.shuffle.size(); }
  std::size_t sequence_length() const noexcept { return sequence_length_; }
  const GptIndex& index() const noexcept { return index_; }
  const IndexedDataset& documents() const noexcept { return *documents_; }

  /// Reads a sample from the mapped file straight into the row; allocates
  /// nothing. Throws DataError when the index files do not belong to the
  /// documents.
  void read(std::size_t index, const GptRow& row) const;
  /// Reads a sample; allocates nothing when `sample` has been used before.
  void read(std::size_t index, Sample& sample) const {
    read(index, sample.row(sequence_length_));
  }

 private:
  [[noreturn]] void refuse(std::size_t sample) const;

  std::shared_ptr<const IndexedDataset> documents_;
  GptIndex index_;
  std::size_t sequence_length_;
  std::size_t extra_;
  GptSampleOptions options_;
  std::string where_;
};

/// A reader of the lengths of a dataset's sequences, which GPT treats as
/// documents.
LengthReader lengths_of(const IndexedDataset& documents);

/// Says why the arrays cannot be those of the plan; empty when they can. Checks
/// the shapes and some samples, not everything.
std::string misfit(
    const GptIndex& index,
    const GptIndexRequest& request,
    const GptIndexPlan& plan,
    const IndexedDataset& documents);

struct GptDataOptions {
  DataSelection data{};
  std::int64_t sequence_length = 1024;
  std::uint32_t seed = 1234;
  GptSampleOptions sample{};
  bool extra_token = true;
  bool drop_last_partial_validation_sample = true;
};

using BlendedGptDataset = BlendedDataset<GptDataset>;
using GptDatasets = BuiltDatasets<GptDataset>;

/// Builds training, validation and test data, sample for sample as Megatron's
/// BlendedMegatronDatasetBuilder does.
GptDatasets build_gpt_datasets(
    const GptDataOptions& options,
    const Logger& logger);

} // namespace cairn::data
