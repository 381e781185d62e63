#pragma once

#include <cairn/data/gpt_index.h>
#include <cairn/data/gpt_sample.h>
#include <cairn/data/indexed_dataset.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace cairn::data {

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

} // namespace cairn::data
