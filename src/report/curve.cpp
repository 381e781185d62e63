#include "report/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cairn::report {

Curve::Bucket Curve::Bucket::of(Point point) {
  Bucket bucket{.first = point, .last = point};
  if (std::isfinite(point.value)) {
    bucket.low = point;
    bucket.high = point;
    bucket.sum = point.value;
    bucket.finite = 1;
  } else {
    bucket.not_finite = point;
  }
  return bucket;
}

void Curve::Bucket::add(const Bucket& later) {
  last = later.last;
  if (later.low && (!low || later.low->value < low->value)) {
    low = later.low;
  }
  if (later.high && (!high || later.high->value > high->value)) {
    high = later.high;
  }
  if (!not_finite) {
    not_finite = later.not_finite;
  }
  sum += later.sum;
  finite += later.finite;
}

Curve::Curve(std::size_t most_buckets)
    : most_buckets_(std::max<std::size_t>(1, most_buckets)) {}

void Curve::add(std::int64_t step, double value) {
  const Bucket one = Bucket::of(
      {step,
       std::isfinite(value) ? value
                            : std::numeric_limits<double>::quiet_NaN()});
  if (!buckets_.empty() &&
      buckets_.back().first.step / width_ == step / width_) {
    buckets_.back().add(one);
    return;
  }
  buckets_.push_back(one);
  if (buckets_.size() > most_buckets_) {
    make_room();
  }
}

void Curve::make_room() {
  while (buckets_.size() > most_buckets_) {
    width_ *= 2; // ends, since steps are below 2^53
    std::size_t kept = 0;
    for (std::size_t i = 1; i < buckets_.size(); ++i) {
      if (buckets_[kept].first.step / width_ ==
          buckets_[i].first.step / width_) {
        buckets_[kept].add(buckets_[i]);
      } else {
        buckets_[++kept] = buckets_[i];
      }
    }
    buckets_.resize(kept + 1);
  }
}

void Curve::cut_after(std::int64_t step) {
  while (!buckets_.empty() && buckets_.back().first.step > step) {
    buckets_.pop_back();
  }
  if (buckets_.empty() || buckets_.back().last.step <= step) {
    return;
  }
  // This bucket has points from before and after; those known to be from before
  // stay.
  Bucket& bucket = buckets_.back();
  Bucket before = Bucket::of(bucket.first);
  for (const auto& point : {bucket.low, bucket.high, bucket.not_finite}) {
    if (point && point->step <= step && point->step > bucket.first.step) {
      const Point last = before.last;
      before.add(Bucket::of(*point));
      before.last = point->step > last.step ? *point : last;
    }
  }
  bucket = before;
}

std::vector<Curve::Point> Curve::points() const {
  std::vector<Point> points;
  points.reserve(2 * buckets_.size() + 2);
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    std::vector<Point> some;
    if (i == 0) {
      some.push_back(bucket.first);
    }
    for (const auto& point : {bucket.low, bucket.high, bucket.not_finite}) {
      if (point) {
        some.push_back(*point);
      }
    }
    if (i + 1 == buckets_.size()) {
      some.push_back(bucket.last);
    }
    std::ranges::stable_sort(some, {}, &Point::step);
    for (const Point& point : some) {
      if (points.empty() || points.back().step != point.step) {
        points.push_back(point);
      }
    }
  }
  return points;
}

std::optional<double> Curve::last() const {
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
    if (std::isfinite(bucket->last.value)) {
      return bucket->last.value;
    }
    if (bucket->low) {
      return bucket->low->step > bucket->high->step ? bucket->low->value
                                                    : bucket->high->value;
    }
  }
  return std::nullopt;
}

std::optional<double> Curve::lowest() const {
  std::optional<double> lowest;
  for (const Bucket& bucket : buckets_) {
    if (bucket.low && (!lowest || bucket.low->value < *lowest)) {
      lowest = bucket.low->value;
    }
  }
  return lowest;
}

std::optional<double> Curve::highest() const {
  std::optional<double> highest;
  for (const Bucket& bucket : buckets_) {
    if (bucket.high && (!highest || bucket.high->value > *highest)) {
      highest = bucket.high->value;
    }
  }
  return highest;
}

std::optional<double> Curve::mean() const {
  double sum = 0;
  std::int64_t count = 0;
  for (const Bucket& bucket : buckets_) {
    sum += bucket.sum;
    count += bucket.finite;
  }
  if (count == 0 || !std::isfinite(sum)) {
    return std::nullopt;
  }
  return sum / static_cast<double>(count);
}

} // namespace cairn::report
