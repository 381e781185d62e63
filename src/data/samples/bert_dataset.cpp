#include <cairn/data/masked_datasets.h>

#include "base/internal/numpy_random.h"
#include "data/preprocess/sentence_run.h"
#include "data/samples/required_id.h"

#include <algorithm>
#include <span>
#include <utility>

namespace cairn::data {
namespace {

using Tokens = std::span<const std::int64_t>;

/// Shortens the longer of the two, at a random end, until both fit. True when
/// anything was cut.
bool truncate(Tokens& a, Tokens& b, std::size_t most, NumpyRandom& random) {
  const bool too_long = a.size() + b.size() > most;
  while (a.size() + b.size() > most) {
    Tokens& longer = a.size() > b.size() ? a : b;
    longer = random.random_sample() < 0.5 ? longer.subspan(1)
                                          : longer.first(longer.size() - 1);
  }
  return too_long;
}

} // namespace

MaskedIndex::Options BertOptions::index() const {
  return {
      .seed = seed,
      .max_length = sequence_length - 3, // [CLS] and two [SEP]
      .short_probability = short_sequence_probability,
      .min_sentences = classification_head ? 2 : 1,
      .samples = samples};
}

BertDataset::BertDataset(
    std::shared_ptr<const IndexedDataset> sentences,
    MaskedSource source,
    MaskedVocabulary vocabulary,
    const BertOptions& options)
    : MaskedDataset(
          std::move(sentences),
          std::move(source),
          options.index(),
          {std::move(vocabulary), options.masking, MaskReplacement::bert}),
      options_(options) {
  const text::SpecialIds& special = masker().vocabulary().special;
  classify_ = required_id(special.classify, "[CLS]", "BERT");
  separator_ = required_id(special.separator, "[SEP]", "BERT");
  pad_ = required_id(special.pad, "padding", "BERT");
}

void BertDataset::read(std::size_t index, Sample& sample) const {
  const MaskedIndex::Row row =
      row_of(this->index(), index, sentences(), options_.sequence_length - 3);
  NumpyRandom random = sample_random(options_.seed, index);

  const std::size_t count = row.end - row.first;
  std::size_t pivot = count;
  sample.is_random = false;
  if (options_.classification_head) {
    pivot = count < 3
        ? 1
        : static_cast<std::size_t>(
              random.randint(1, static_cast<std::int64_t>(count)));
    sample.is_random = random.random_sample() < 0.5;
  }
  sample.scratch.sentences.clear();
  append_sentences(
      sentences(),
      row.first,
      row.first + pivot,
      sample.scratch.sentences);
  const std::size_t middle = sample.scratch.sentences.size();
  append_sentences(
      sentences(),
      row.first + pivot,
      row.end,
      sample.scratch.sentences);
  Tokens a = Tokens(sample.scratch.sentences).first(middle);
  Tokens b = Tokens(sample.scratch.sentences).subspan(middle);
  if (sample.is_random) {
    std::swap(a, b);
  }
  sample.truncated =
      truncate(a, b, static_cast<std::size_t>(row.target_length), random);

  std::vector<std::int64_t>& text = sample.text;
  text.clear();
  text.push_back(classify_);
  text.insert(text.end(), a.begin(), a.end());
  text.push_back(separator_);
  const std::size_t b_begin = text.size();
  if (!b.empty()) {
    text.insert(text.end(), b.begin(), b.end());
    text.push_back(separator_);
  }
  masker().mask(text, row.target_length, random, sample.scratch.masked);

  const auto length = static_cast<std::size_t>(options_.sequence_length);
  sample.types.assign(length, 0);
  std::fill(
      sample.types.begin() + static_cast<std::ptrdiff_t>(b_begin),
      sample.types.begin() + static_cast<std::ptrdiff_t>(text.size()),
      1);
  sample.labels.assign(length, -1);
  sample.loss_mask.assign(length, 0);
  for (const std::uint32_t position : sample.scratch.masked.positions) {
    sample.labels[position] = text[position];
    sample.loss_mask[position] = 1;
  }
  text.assign(
      sample.scratch.masked.tokens.begin(),
      sample.scratch.masked.tokens.end());
  text.resize(length, pad_);
  sample.padding_mask.resize(length);
  std::ranges::transform(
      text,
      sample.padding_mask.begin(),
      [this](std::int64_t token) { return token == pad_ ? 0 : 1; });
}

} // namespace cairn::data
