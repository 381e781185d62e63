#include "monitor/iteration_interval.h"

#include <algorithm>

namespace cairn::monitor {

void IterationInterval::add(const IterationValues& values) {
  last_ = values;
  work_.add(values);
  iterations_ += values.iterations;
  skipped_ += values.skipped;
  nan_ += values.nan;
  const std::int64_t updates = values.iterations - values.skipped;
  if (updates <= 0) {
    return; // what overflowed may be infinite
  }
  for (const NamedValue& loss : values.losses) {
    auto sum = std::find_if(
        loss_sums_.begin(),
        loss_sums_.end(),
        [&](const NamedValue& other) { return other.name == loss.name; });
    if (sum == loss_sums_.end()) {
      sum = loss_sums_.insert(sum, {loss.name, 0});
    }
    sum->value += loss.value * static_cast<double>(updates);
  }
}

IterationValues IterationInterval::values() const {
  IterationValues values = last_;
  values.iterations = iterations_;
  values.skipped = skipped_;
  values.nan = nan_;
  values.losses = loss_sums_;
  for (NamedValue& loss : values.losses) {
    loss.value /= static_cast<double>(iterations_ - skipped_);
  }
  return values;
}

} // namespace cairn::monitor
