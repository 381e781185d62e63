#include <cairn/data/gpt_sample.h>

#include <algorithm>
#include <numeric>

namespace cairn::data {

GptRow GptSample::row(std::size_t sequence_length) {
  tokens.resize(sequence_length);
  labels.resize(sequence_length);
  loss_mask.resize(sequence_length);
  position_ids.resize(sequence_length);
  return {tokens, labels, loss_mask, position_ids};
}

void finish_gpt_row(const GptRow& row, const GptSampleOptions& options) {
  const std::size_t count = row.tokens.size();
  if (options.reset_position_ids) {
    std::int64_t position = 0;
    for (std::size_t i = 0; i < count; ++i) {
      row.position_ids[i] = position++;
      if (row.tokens[i] == options.eod) {
        position = 0;
      }
    }
  } else {
    std::iota(
        row.position_ids.begin(),
        row.position_ids.end(),
        std::int64_t{0});
  }
  for (std::size_t i = 0; i < count; ++i) {
    const bool after_eod =
        options.eod_mask_loss && row.tokens[i] == options.eod;
    const bool padding = row.labels[i] == options.pad;
    row.loss_mask[i] = after_eod || padding ? 0.0F : 1.0F;
  }
  std::replace(
      row.tokens.begin(),
      row.tokens.end(),
      options.pad,
      std::int64_t{0});
  std::replace(
      row.labels.begin(),
      row.labels.end(),
      options.pad,
      std::int64_t{0});
}

void document_bounds(
    std::span<const std::int64_t> tokens,
    std::int64_t eod,
    std::vector<std::int32_t>& bounds) {
  bounds.assign(1, 0);
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (tokens[i] == eod) {
      bounds.push_back(static_cast<std::int32_t>(i + 1));
    }
  }
  bounds.push_back(static_cast<std::int32_t>(tokens.size()));
}

} // namespace cairn::data
