#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::monitor {

/// The losses of a whole run in bounded memory, detailed enough for a plot.
/// When the memory is full, neighbouring points are averaged, and from then on
/// twice as many losses make a point.
class LossHistory {
 public:
  explicit LossHistory(std::size_t capacity = 1024);

  /// Adds a loss. Steps must grow; losses that are not finite are ignored.
  void add(std::int64_t step, double loss);

  struct Point {
    double step = 0; ///< mean of its steps
    double loss = 0;
  };
  /// All points, including the unfinished last one.
  std::vector<Point> points() const;
  bool empty() const noexcept { return sums_.empty(); }

 private:
  struct Sum {
    double step = 0;
    double loss = 0;
    std::int64_t count = 0;
  };

  std::size_t capacity_;
  std::int64_t losses_per_point_ = 1;
  std::vector<Sum> sums_;
};

} // namespace cairn::monitor
