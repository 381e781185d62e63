#include <cairn/data/gpt_datasets.h>

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
  // No branches, so that the compiler vectorises the loops.
  const bool mask_eod = options.eod_mask_loss;
  const std::int64_t eod = options.eod;
  const std::int64_t pad = options.pad;
  std::int64_t* const tokens = row.tokens.data();
  std::int64_t* const labels = row.labels.data();
  float* const loss_mask = row.loss_mask.data();
  for (std::size_t i = 0; i < count; ++i) {
    const bool after_eod = mask_eod & (tokens[i] == eod);
    loss_mask[i] = after_eod | (labels[i] == pad) ? 0.0F : 1.0F;
  }
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = tokens[i] == pad ? 0 : tokens[i];
    labels[i] = labels[i] == pad ? 0 : labels[i];
  }
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
