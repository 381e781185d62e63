#include "monitor/measures/iteration_interval.h"

#include <algorithm>

namespace cairn::monitor {
namespace {

void add_weighted(
    std::vector<NamedValue>& sums,
    const std::vector<NamedValue>& values,
    std::int64_t weight) {
  for (const NamedValue& value : values) {
    auto sum = std::ranges::find(sums, value.name, &NamedValue::name);
    if (sum == sums.end()) {
      sum = sums.insert(sum, {value.name, 0});
    }
    sum->value += value.value * static_cast<double>(weight);
  }
}

std::vector<NamedValue> divided(
    std::vector<NamedValue> sums,
    std::int64_t weight) {
  for (NamedValue& sum : sums) {
    sum.value /= static_cast<double>(weight);
  }
  return sums;
}

} // namespace

void IterationInterval::add(const IterationValues& values) {
  last_ = values;
  work_.add(values);
  iterations_ += values.iterations;
  skipped_ += values.skipped;
  nan_ += values.nan;
  add_weighted(timer_sums_, values.timers, values.iterations);
  // Losses of overflowed iterations may be infinite.
  if (const auto updates = values.iterations - values.skipped; updates > 0) {
    add_weighted(loss_sums_, values.losses, updates);
  }
}

IterationValues IterationInterval::values() const {
  IterationValues values = last_;
  values.iterations = iterations_;
  values.skipped = skipped_;
  values.nan = nan_;
  values.losses = divided(loss_sums_, iterations_ - skipped_);
  values.timers = divided(timer_sums_, iterations_);
  return values;
}

} // namespace cairn::monitor
