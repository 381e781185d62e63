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
/// order of Megatron's GPTDataset. May be read by any number of threads.
class GptDataset {
 public:
  using Sample = GptSample;

  /// `where` names the index files in messages.
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

  /// Straight from the mapped file into the row, nothing allocated. Index files
  /// that do not belong to the documents are a DataError.
  void read(std::size_t index, const GptRow& row) const;
  /// Allocates nothing once `sample` has been used.
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

/// Lengths of a dataset's sequences, which GPT takes for documents.
LengthReader lengths_of(const IndexedDataset& documents);

/// Whether the arrays can be those of the plan; what is wrong with them, else
/// empty. Looks at shapes and at some samples, not at everything.
std::string misfit(
    const GptIndex& index,
    const GptIndexRequest& request,
    const GptIndexPlan& plan,
    const IndexedDataset& documents);

} // namespace cairn::data
