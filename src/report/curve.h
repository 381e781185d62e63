#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace cairn::report {

/// One value over the steps of a run, in bounded memory however long the log
/// is. When there are too many steps, several share a bucket; a bucket keeps
/// its lowest and highest value, so that no spike is lost.
class Curve {
 public:
  struct Point {
    std::int64_t step = 0;
    double value = 0; ///< NaN if it is not finite

    bool operator==(const Point&) const = default;
  };

  explicit Curve(std::size_t most_buckets = 2048);

  /// Adds a point. Steps must grow; to go back, call cut_after() first.
  void add(std::int64_t step, double value);
  /// Removes the points after `step`, for a run that resumed from an earlier
  /// step.
  void cut_after(std::int64_t step);

  bool empty() const noexcept { return buckets_.empty(); }
  /// The last step; the curve must not be empty.
  std::int64_t last_step() const { return buckets_.back().last.step; }
  /// The first and the last point, and of every bucket the lowest, the highest
  /// and one that is not finite, if there is one; ordered by step.
  std::vector<Point> points() const;

  // Statistics of the finite values; empty if there are none.
  std::optional<double> last() const;
  std::optional<double> lowest() const;
  std::optional<double> highest() const;
  std::optional<double> mean() const;

 private:
  struct Bucket {
    Point first, last;
    std::optional<Point> low{}, high{}, not_finite{};
    double sum = 0;
    std::int64_t finite = 0;

    static Bucket of(Point point);
    void add(const Bucket& later);
  };
  void make_room();

  std::size_t most_buckets_;
  std::int64_t width_ = 1; ///< steps that share a bucket
  std::vector<Bucket> buckets_;
};

} // namespace cairn::report
