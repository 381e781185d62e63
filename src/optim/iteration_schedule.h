#pragma once

#include <cairn/optim/deepspeed_schedules.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::optim {

/// Base of DeepSpeed's schedules, which count iterations and are at
/// `last_batch_iteration` before their first step.
class IterationSchedule : public Schedule {
 public:
  std::vector<GroupValuesPatch> at(std::int64_t done) const final;

 protected:
  IterationSchedule(std::size_t groups, std::int64_t last_batch_iteration)
      : groups_(groups), last_batch_iteration_(last_batch_iteration) {}

  std::size_t groups() const { return groups_; }

 private:
  /// Values once `iteration` is the last one done; -1 is the start.
  virtual GroupValuesPatch values(std::size_t group, std::int64_t iteration)
      const = 0;

  std::size_t groups_;
  std::int64_t last_batch_iteration_;
};

/// A number for each of `groups`. Throws ConfigError unless `values` has one
/// number, or one for each group.
std::vector<double> spread(
    const PerGroup& values,
    std::size_t groups,
    std::string_view key);

} // namespace cairn::optim
