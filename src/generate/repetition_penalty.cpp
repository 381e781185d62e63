#include "generate/repetition_penalty.h"

#include <unordered_set>

namespace cairn::generate {

void penalize(
    std::span<float> scores,
    std::span<const std::int64_t> text,
    double penalty) {
  const auto factor = static_cast<float>(penalty);
  std::unordered_set<std::int64_t> seen;
  for (const std::int64_t token : text) {
    if (static_cast<std::size_t>(token) < scores.size() &&
        seen.insert(token).second) {
      float& score = scores[static_cast<std::size_t>(token)];
      score = score < 0 ? score * factor : score / factor;
    }
  }
}

} // namespace cairn::generate
