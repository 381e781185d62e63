#include <cairn/base/error.h>
#include <cairn/optim/deepspeed_schedules.h>
#include <fmt/format.h>

#include <cmath>

#include "optim/iteration_schedule.h"

namespace cairn::optim {
namespace {

class LrRangeTest final : public IterationSchedule {
 public:
  LrRangeTest(const LrRangeTestOptions& options, std::size_t groups)
      : IterationSchedule(groups, options.last_batch_iteration),
        options_(options),
        min_lr_(spread(options.min_lr, groups, "lr_range_test_min_lr")) {
    if (options.step_size <= 0) {
      throw ConfigError(
          {.what = "must be at least one step",
           .where = "scheduler.params.lr_range_test_step_size",
           .values = fmt::format("{}", options.step_size)});
    }
  }

 private:
  GroupValuesPatch values(std::size_t group, std::int64_t iteration)
      const override {
    double intervals = static_cast<double>(iteration + 1) /
        static_cast<double>(options_.step_size);
    if (options_.staircase) {
      intervals = std::floor(intervals);
    }
    return {.lr = min_lr_[group] * (1 + options_.step_rate * intervals)};
  }

  LrRangeTestOptions options_;
  std::vector<double> min_lr_;
};

} // namespace

std::unique_ptr<Schedule> lr_range_test(
    const LrRangeTestOptions& options,
    std::span<const double> group_lrs) {
  return std::make_unique<LrRangeTest>(options, group_lrs.size());
}

} // namespace cairn::optim
