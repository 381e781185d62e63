#pragma once

#include "evaluate/finetune/task_tokenizer.h"

#include <cairn/text/tokenizer.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace cairn::evaluate {

/// A pair of encoded texts, or one text.
struct EncodedTexts {
  using Ids = std::vector<text::TokenId>;

  Ids a;
  std::shared_ptr<const Ids> b{}; ///< null: there is one text
};

/// The row of a batch that is written: as many elements each as the sequence
/// has tokens.
struct SampleRow {
  std::span<std::int64_t> tokens;
  std::span<std::int64_t> types;
  std::span<std::int64_t> mask;
};

/// Writes `[CLS] a [SEP] b [SEP]` and padding, as Megatron does: types are 1
/// from b on, the mask is 1 where there is no padding. What is too long is cut
/// at the end, and ends with [SEP].
void write_sample(
    const EncodedTexts& texts,
    const TaskTokenizer& special,
    const SampleRow& row);

} // namespace cairn::evaluate
