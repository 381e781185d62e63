#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace cairn::report {

/// One value over the steps of a run, in bounded memory however long the log
/// is: steps share a bucket once there are too many, and a bucket keeps its
/// lowest and highest value, so that no spike is lost.
class Curve {
 public:
  struct Point {
    std::int64_t step = 0;
    double value = 0; ///< what is not finite is NaN

    bool operator==(const Point&) const = default;
  };

  explicit Curve(std::size_t most_buckets = 2048);

  /// Steps must grow; one that does not is replaced by cut_after() before.
  void add(std::int64_t step, double value);
  /// Forgets what came after `step`: a run that went back goes another way.
  void cut_after(std::int64_t step);

  bool empty() const noexcept { return buckets_.empty(); }
  /// Of a curve that is not empty.
  std::int64_t last_step() const { return buckets_.back().last.step; }
  /// The first and the last point, and of every bucket the lowest and the
  /// highest and one that is not finite, where there is one; by their steps.
  std::vector<Point> points() const;

  // Of finite values; none where there are none.
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
