#pragma once

#include <cairn/nn/block.h>

#include <cstdint>
#include <vector>

namespace cairn::models {

struct TokenChoice {
  std::uint64_t seed = 0;
  std::vector<std::int64_t> layers{}; ///< that drop tokens
  std::int64_t first_sample = 0;      ///< the batch's, counted over the run
  std::int64_t batch = 1;
  std::int64_t sequence = 0;
  std::int64_t kept = 0; ///< of a sequence
};

/// Random tokens of each sample for each layer, as ModelInput::kept has them.
/// They depend on the seed, the sample and the layer alone, so ranks that have
/// the same sample choose alike, whatever the layout.
at::Tensor chosen_tokens(const TokenChoice& choice);

/// The block's output where it computes these tokens only, [batch, kept], each
/// with its own position; the others pass it by.
nn::Block::Output forward_kept(
    const nn::Block& block,
    const at::Tensor& x,
    nn::BlockInput input,
    const at::Tensor& kept);

} // namespace cairn::models
