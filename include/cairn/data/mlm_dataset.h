#pragma once

#include <cairn/base/counter_random.h>
#include <cairn/data/batch.h>
#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::data {

struct MlmOptions {
  std::uint64_t seed = 1234;
  std::size_t max_length = 512;    ///< with the begin and the end token
  double mask_probability = 0.15;  ///< of the tokens to predict; of these
  double random_probability = 0.1; ///< another token is put in, or
  double keep_probability = 0.1;   ///< the token is left, else it is masked
  std::size_t threads = 1;         ///< that encode the text
};

/// As long as the text; batches are padded to their longest sample.
struct MlmSample {
  std::vector<std::int64_t> tokens; ///< begin … end, some masked
  std::vector<std::int64_t> labels; ///< the tokens to predict, else padding

  std::vector<std::uint32_t> positions{}; ///< memory that read() uses again
};

/// Masked language modelling of single lines of text, as RoBERTa does it, with
/// other masks in every epoch. The number of tokens to predict is exact: 15% of
/// those in the line, rounded up or down at random, at least one. Only
/// ordinary tokens are put in at random.
///
/// A sample depends on (seed, index) alone, and any number of threads may read,
/// each into a sample of its own.
class MlmDataset {
 public:
  using Sample = MlmSample;

  /// Encodes all lines, each cut to `max_length`; for WikiText, give
  /// WikiText::lines(). A tokenizer without begin, end, padding and mask tokens
  /// (RoBERTa's 0, 2, 1 and 50264) is a ConfigError; BERT's [CLS] and [SEP]
  /// serve as the first two.
  MlmDataset(
      std::span<const std::string_view> lines,
      const text::Tokenizer& tokenizer,
      const MlmOptions& options);

  /// Lines: the samples of one epoch.
  std::size_t size() const noexcept { return ends_.size(); }
  std::int64_t padding() const noexcept { return pad_; }

  /// Sample i of epoch e is e * size() + i. Allocates nothing once `sample` has
  /// been used.
  void read(std::size_t index, Sample& sample) const;

 private:
  std::int64_t random_token(std::uint64_t drawn) const;

  MlmOptions options_;
  CounterRandom random_;
  std::vector<text::TokenId> tokens_; ///< of all lines, one after the other
  std::vector<std::size_t> ends_;     ///< of the lines, in tokens_
  std::vector<std::int64_t> special_; ///< never put in at random; sorted
  std::size_t vocab_size_ = 0;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  std::int64_t pad_ = 0;
  std::int64_t mask_ = 0;
};

/// "tokens", "labels" and "attention_mask" (1 where there is text), with as
/// many columns as the longest of the samples has tokens.
void collate(
    const MlmDataset& dataset,
    std::span<const std::int64_t> indices,
    const HostAllocator& allocate,
    Batch& batch);

} // namespace cairn::data
