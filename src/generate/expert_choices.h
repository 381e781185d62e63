#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::generate {

/// The experts that rows get. The choices of all rows are sorted by expert, and
/// within an expert by row; a slot is a place in that order.
struct ExpertChoices {
  std::vector<std::int64_t> begins; ///< first slot of each expert, and the end
  std::vector<std::int64_t> rows;   ///< of each slot
  std::vector<std::int64_t> slots;  ///< [rows, top_k], the best expert first
  std::vector<float> weights;       ///< [rows, top_k], of the experts' answers
};

/// Chooses by the router's scores, [rows, experts], as nn::Mixture does in
/// evaluation where every token finds room. What a row gets does not depend on
/// the rows beside it. Of equal scores the first expert's counts as the best.
ExpertChoices choose_experts(
    std::span<const float> scores,
    std::int64_t experts,
    std::int64_t top_k);

} // namespace cairn::generate
