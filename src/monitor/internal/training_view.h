#pragma once

#include "monitor/display/loss_history.h"
#include "monitor/display/loss_plot.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::monitor {

/// The state of a training at one moment.
struct TrainingMoment {
  std::int64_t iteration = 0;
  std::int64_t iterations = 0; ///< of the whole run
  std::optional<double> loss{};
  std::optional<double> validation_loss{}; ///< of the last evaluation
  double learning_rate = 0;
  double tokens_per_second = 0;
  std::optional<double> utilisation{};
  std::optional<double> seconds_left{};
};

/// ` 240/1000 ━━━━╸──────────────  24%  loss 2.914  lr 3.0e-04  12.4k tokens/s
/// 3:21 left`, in at most `columns`: the bar shrinks first, then parts are left
/// out, the least needed first.
std::string status_line(
    const TrainingMoment& moment,
    std::size_t columns,
    Colour colour = Colour::none);

/// A training as lines of text: the plot of the loss, and the status line below
/// it.
class TrainingView {
 public:
  explicit TrainingView(std::optional<LossTarget> target = {});

  void add(const TrainingMoment& moment);

  struct Size {
    std::size_t columns = 80;
    std::size_t rows = 24; ///< of the terminal; uses at most half
  };
  /// The lines to draw. Without room for the plot, the status line gets a small
  /// one.
  std::vector<std::string> lines(const Size& size, Colour colour) const;

 private:
  std::optional<LossTarget> target_;
  LossHistory history_;
  TrainingMoment last_;
};

} // namespace cairn::monitor
