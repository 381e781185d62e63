#include "pretrain/run/token_count.h"

#include <algorithm>
#include <iterator>

namespace cairn::pretrain {

void TokenCount::change(std::int64_t samples, std::int64_t length) {
  if (parts_.back().length != length) {
    parts_.push_back(
        {.samples = samples, .tokens = at(samples), .length = length});
  }
}

std::int64_t TokenCount::at(std::int64_t samples) const {
  const auto after = std::ranges::upper_bound(
      parts_.begin() + 1,
      parts_.end(),
      samples,
      {},
      &Part::samples);
  const Part& part = *std::prev(after);
  return part.tokens + (samples - part.samples) * part.length;
}

std::int64_t TokenCount::longest() const {
  return std::ranges::max_element(parts_, {}, &Part::length)->length;
}

} // namespace cairn::pretrain
