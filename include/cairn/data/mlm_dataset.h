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
  std::size_t max_length = 512;   ///< including the begin and end tokens
  double mask_probability = 0.15; ///< share of tokens to predict
  /// Share of the tokens to predict that are replaced by random tokens.
  double random_probability = 0.1;
  /// Share of the tokens to predict that stay as they are; the rest are masked.
  double keep_probability = 0.1;
  std::size_t threads = 1; ///< threads that encode the text
};

/// A sample, as long as its text; a batch is padded to its longest sample.
struct MlmSample {
  std::vector<std::int64_t> tokens; ///< begin … end, some masked
  std::vector<std::int64_t> labels; ///< the tokens to predict, else padding

  std::vector<std::uint32_t> positions{}; ///< scratch memory of read()
};

/// Masked language modelling of single lines of text, as RoBERTa does it, with
/// other masks in every epoch. The number of tokens to predict is exact:
/// `mask_probability` (15% by default) of those in the line, rounded up or down
/// at random, at least one. Random replacements are never special tokens.
///
/// A sample depends on (seed, index) alone. Any number of threads may read,
/// each into its own sample.
class MlmDataset {
 public:
  using Sample = MlmSample;

  /// Encodes all lines, each cut to `max_length`; for WikiText, give
  /// WikiText::lines(). Throws ConfigError for a tokenizer without begin, end,
  /// padding and mask tokens (RoBERTa's 0, 2, 1 and 50264); BERT's [CLS] and
  /// [SEP] serve as begin and end.
  MlmDataset(
      std::span<const std::string_view> lines,
      const text::Tokenizer& tokenizer,
      const MlmOptions& options);

  /// The number of lines with text, which are the samples of one epoch.
  std::size_t size() const noexcept { return ends_.size(); }
  std::int64_t padding() const noexcept { return pad_; }

  /// Reads a sample; line i of epoch e has the index e * size() + i. Allocates
  /// nothing when `sample` has been used before.
  void read(std::size_t index, Sample& sample) const;

 private:
  std::int64_t random_token(std::uint64_t drawn) const;

  MlmOptions options_;
  CounterRandom random_;
  std::vector<text::TokenId> tokens_; ///< of all lines, one after another
  std::vector<std::size_t> ends_;     ///< end of each line in tokens_
  std::vector<std::int64_t> special_; ///< sorted; never a random replacement
  std::size_t vocab_size_ = 0;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  std::int64_t pad_ = 0;
  std::int64_t mask_ = 0;
};

/// Makes a batch of "tokens", "labels" and "attention_mask" (1 where there is
/// text), with as many columns as the longest sample has tokens.
void collate(
    const MlmDataset& dataset,
    std::span<const std::int64_t> indices,
    const HostAllocator& allocate,
    Batch& batch);

} // namespace cairn::data
