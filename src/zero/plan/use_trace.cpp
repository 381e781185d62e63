#include "zero/plan/use_trace.h"

#include <algorithm>
#include <utility>

namespace cairn::zero {

UseTrace::UseTrace(std::vector<std::int64_t> elements)
    : elements_(std::move(elements)), uses_(elements_.size()) {}

void UseTrace::note(int bucket) {
  if (!noted_.empty() && noted_.back() == bucket) {
    return;
  }
  noted_.push_back(bucket);
  if (!predicts()) {
    return;
  }
  const auto& places = uses_[bucket];
  const auto next = std::ranges::lower_bound(places, place_);
  if (next == places.end()) {
    strayed_ = true;
    return;
  }
  strayed_ = strayed_ || *next != place_;
  place_ = *next + 1;
}

void UseTrace::finish_pass() {
  predicted_ = std::exchange(noted_, {});
  for (auto& places : uses_) {
    places.clear();
  }
  elements_before_.clear();
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < predicted_.size(); ++i) {
    uses_[predicted_[i]].push_back(static_cast<std::int64_t>(i));
    elements_before_.push_back(sum);
    sum += elements_[predicted_[i]];
  }
  place_ = 0;
  strayed_ = false;
}

std::optional<std::int64_t> UseTrace::distance_to(int bucket) const {
  const auto& places = uses_[bucket];
  const auto next = std::ranges::lower_bound(places, place_);
  if (next == places.end()) {
    return std::nullopt;
  }
  return elements_before_[*next] - elements_before_[place_];
}

std::vector<int> UseTrace::upcoming(std::int64_t limit) const {
  std::vector<int> result;
  std::int64_t sum = 0;
  for (auto i = place_; i < static_cast<std::int64_t>(predicted_.size()); ++i) {
    const int bucket = predicted_[i];
    if (std::ranges::find(result, bucket) != result.end()) {
      continue;
    }
    sum += elements_[bucket];
    if (sum > limit) {
      break;
    }
    result.push_back(bucket);
  }
  return result;
}

} // namespace cairn::zero
