#include <cairn/data/masked_datasets.h>

#include "base/internal/numpy_random.h"
#include "data/preprocess/sentence_run.h"
#include "data/samples/required_id.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace cairn::data {
namespace {

/// Sets the mask to 1 where a token is not padding.
void mask_of(
    std::span<const std::int64_t> tokens,
    std::int64_t pad,
    std::vector<std::int64_t>& mask) {
  mask.resize(tokens.size());
  std::ranges::transform(tokens, mask.begin(), [pad](std::int64_t token) {
    return token == pad ? 0 : 1;
  });
}

} // namespace

MaskedIndex::Options T5Options::index() const {
  return {
      .seed = seed,
      .max_length = sequence_length - 2, // begin and end
      .short_probability = short_sequence_probability,
      .min_sentences = 1,
      .samples = samples};
}

T5Dataset::T5Dataset(
    std::shared_ptr<const IndexedDataset> sentences,
    MaskedSource source,
    MaskedVocabulary vocabulary,
    const T5Options& options)
    : MaskedDataset(
          std::move(sentences),
          std::move(source),
          options.index(),
          {std::move(vocabulary),
           options.masking,
           MaskReplacement::always_mask}),
      options_(options) {
  const text::SpecialIds& special = masker().vocabulary().special;
  begin_ = required_id(special.begin, "begin", "T5");
  end_ = required_id(special.end, "end", "T5");
  pad_ = required_id(special.pad, "padding", "T5");
  if (special.sentinels.empty()) {
    throw ConfigError(
        {.what = "the tokenizer has no sentinel tokens, which a T5 dataset "
                 "needs",
         .remedy = "give --vocab-extra-ids 100"});
  }
  if (options.decoder_sequence_length < 2) {
    throw ConfigError(
        {.what = "the decoder has no room for a span",
         .values = fmt::format("{}", options.decoder_sequence_length),
         .remedy = "raise --decoder-seq-length"});
  }
}

void T5Dataset::read(std::size_t index, Sample& sample) const {
  const MaskedIndex::Row row =
      row_of(this->index(), index, sentences(), options_.sequence_length - 2);
  NumpyRandom random = sample_random(options_.seed, index);

  std::vector<std::int64_t>& original = sample.scratch.sentences;
  original.clear();
  append_sentences(sentences(), row.first, row.end, original);
  const auto target = static_cast<std::size_t>(row.target_length);
  sample.truncated = original.size() > target;
  if (sample.truncated) {
    original.resize(target);
  }
  masker().mask(original, row.target_length, random, sample.scratch.masked);
  const MaskedTokens& masked = sample.scratch.masked;

  const std::vector<text::TokenId>& sentinels =
      masker().vocabulary().special.sentinels;
  if (masked.spans.size() > sentinels.size()) {
    throw DataError(
        {.what = "a sample has more masked spans than there are sentinels",
         .where =
             fmt::format("{}: sample {}", sentences().prefix().string(), index),
         .values = fmt::format(
             "{} spans, {} sentinels",
             masked.spans.size(),
             sentinels.size()),
         .remedy = "raise --vocab-extra-ids, or mask less"});
  }
  sample.encoder_text.clear();
  sample.decoder_text.assign(1, begin_);
  std::size_t done = 0;
  const auto keep_until = [&](std::size_t position) {
    for (; done < position; ++done) {
      sample.encoder_text.push_back(masked.tokens[done]);
    }
  };
  for (std::size_t i = 0; i < masked.spans.size(); ++i) {
    const auto span = std::span(masked.positions)
                          .subspan(
                              masked.spans[i].begin,
                              masked.spans[i].end - masked.spans[i].begin);
    keep_until(span.front());
    sample.encoder_text.push_back(sentinels[i]);
    sample.decoder_text.push_back(sentinels[i]);
    for (const std::uint32_t position : span) {
      sample.decoder_text.push_back(original[position]);
    }
    done = span.back() + 1;
  }
  keep_until(masked.tokens.size());

  const auto decoder_length =
      static_cast<std::size_t>(options_.decoder_sequence_length);
  const std::size_t used = sample.decoder_text.size();
  if (used > decoder_length) {
    throw DataError(
        {.what = "the masked spans of a sample do not fit the decoder",
         .where =
             fmt::format("{}: sample {}", sentences().prefix().string(), index),
         .values = fmt::format("{} tokens, room for {}", used, decoder_length),
         .remedy = "raise --decoder-seq-length, or mask less"});
  }
  sample.labels.assign(
      sample.decoder_text.begin() + 1,
      sample.decoder_text.end());
  sample.labels.push_back(end_);
  sample.labels.resize(decoder_length, -1);
  sample.loss_mask.assign(decoder_length, 0);
  std::fill_n(sample.loss_mask.begin(), used, 1);
  sample.encoder_text.resize(
      static_cast<std::size_t>(options_.sequence_length),
      pad_);
  sample.decoder_text.resize(decoder_length, pad_);
  mask_of(sample.encoder_text, pad_, sample.encoder_mask);
  mask_of(sample.decoder_text, pad_, sample.decoder_mask);
}

} // namespace cairn::data
