#include "monitor/display/loss_history.h"

#include <algorithm>
#include <cmath>

namespace cairn::monitor {

LossHistory::LossHistory(std::size_t capacity)
    : capacity_(std::max<std::size_t>(2, capacity)) {}

void LossHistory::add(std::int64_t step, double loss) {
  if (!std::isfinite(loss)) {
    return;
  }
  if (sums_.empty() || sums_.back().count == losses_per_point_) {
    if (sums_.size() == capacity_) {
      const std::size_t half = capacity_ / 2;
      for (std::size_t i = 0; i < half; ++i) {
        const Sum& a = sums_[2 * i];
        const Sum& b = sums_[2 * i + 1];
        sums_[i] = {a.step + b.step, a.loss + b.loss, a.count + b.count};
      }
      // With an odd number of points the last one stays, half full.
      if (capacity_ % 2 == 1) {
        sums_[half] = sums_.back();
      }
      sums_.resize(half + capacity_ % 2);
      losses_per_point_ *= 2;
    }
    if (sums_.empty() || sums_.back().count == losses_per_point_) {
      sums_.emplace_back();
    }
  }
  Sum& last = sums_.back();
  last.step += static_cast<double>(step);
  last.loss += loss;
  ++last.count;
}

std::vector<LossHistory::Point> LossHistory::points() const {
  std::vector<Point> points;
  points.reserve(sums_.size());
  for (const Sum& sum : sums_) {
    const auto count = static_cast<double>(sum.count);
    points.push_back({sum.step / count, sum.loss / count});
  }
  return points;
}

} // namespace cairn::monitor
