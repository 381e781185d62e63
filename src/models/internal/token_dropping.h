#pragma once

#include <cairn/nn/block.h>

#include <cstdint>
#include <vector>

namespace cairn::models {

struct TokenChoice {
  std::uint64_t seed = 0;
  std::vector<std::int64_t> layers{}; ///< layers that drop tokens
  /// Number of the batch's first sample in the run.
  std::int64_t first_sample = 0;
  std::int64_t batch = 1;
  std::int64_t sequence = 0;
  std::int64_t kept = 0; ///< tokens that stay of each sequence
};

/// Random tokens of each sample for each layer, as ModelInput::kept has them.
/// They depend on the seed, the sample and the layer alone, so ranks that have
/// the same sample choose alike, whatever the layout.
at::Tensor chosen_tokens(const TokenChoice& choice);

/// The block's output when it computes only these tokens, [batch, kept], each
/// with its own position; the others pass it by.
nn::Block::Output forward_kept(
    const nn::Block& block,
    const at::Tensor& x,
    nn::BlockInput input,
    const at::Tensor& kept);

} // namespace cairn::models
