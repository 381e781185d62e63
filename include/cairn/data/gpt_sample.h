#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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

} // namespace cairn::data
