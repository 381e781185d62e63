#include "data/internal/made_up_dataset.h"

#include "data/samples/sample_random.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace cairn::data {
namespace {

using MadeUpTokens = std::vector<std::int64_t>;

/// Draws `count` tokens.
void draw(
    MadeUpTokens& tokens,
    std::size_t count,
    const MadeUpOptions& options,
    SampleRandom& random) {
  tokens.resize(count);
  for (std::int64_t& token : tokens) {
    token = static_cast<std::int64_t>(random.below(options.vocabulary));
  }
}

void draw_sample(
    GptSample& sample,
    const MadeUpOptions& options,
    SampleRandom& random) {
  const GptRow row = sample.row(options.length);
  draw(sample.tokens, options.length, options, random);
  std::copy(sample.tokens.begin() + 1, sample.tokens.end(), row.labels.begin());
  row.labels.back() =
      static_cast<std::int64_t>(random.below(options.vocabulary));
  finish_gpt_row(row, options.gpt);
}

void draw_sample(
    BertSample& sample,
    const MadeUpOptions& options,
    SampleRandom& random) {
  const std::size_t length = options.length;
  draw(sample.text, length, options, random);
  sample.types.assign(length, 0);
  std::fill(
      sample.types.begin() + static_cast<std::ptrdiff_t>(length / 2),
      sample.types.end(),
      1);
  sample.labels.assign(length, -1);
  sample.loss_mask.assign(length, 0);
  for (std::size_t i = 0; i < length; ++i) {
    if (random.uniform() < options.masked) {
      sample.loss_mask[i] = 1;
      sample.labels[i] =
          static_cast<std::int64_t>(random.below(options.vocabulary));
    }
  }
  sample.padding_mask.assign(length, 1);
  sample.is_random = random.below(2) == 1;
}

void draw_sample(
    T5Sample& sample,
    const MadeUpOptions& options,
    SampleRandom& random) {
  draw(sample.encoder_text, options.length, options, random);
  draw(sample.decoder_text, options.decoder_length, options, random);
  draw(sample.labels, options.decoder_length, options, random);
  sample.loss_mask.assign(options.decoder_length, 1);
  sample.encoder_mask.assign(options.length, 1);
  sample.decoder_mask.assign(options.decoder_length, 1);
}

} // namespace

template <typename SampleType>
void MadeUpDataset<SampleType>::read(std::size_t index, Sample& sample) const {
  SampleRandom random(random_, index);
  draw_sample(sample, options_, random);
}

template class MadeUpDataset<GptSample>;
template class MadeUpDataset<BertSample>;
template class MadeUpDataset<T5Sample>;

} // namespace cairn::data
