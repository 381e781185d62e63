#include "pretrain/run/step_times.h"

#include "engine/internal/device_memory.h"
#include "monitor/internal/timing_report.h"
#include "zero/internal/sum_over.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <utility>

namespace cairn::pretrain {

namespace {

/// Names of the timers; the last two are parts of others, for level 2.
constexpr std::array<std::string_view, 7> timer_names{
    "forward",
    "backward",
    "allreduce",
    "optimizer",
    "batch generator",
    "data loader",
    "grad norm"};
constexpr std::size_t names_at_level_1 = 5;

std::span<const std::string_view> names_at(std::int64_t level) {
  const std::span<const std::string_view> all(timer_names);
  return level == 0 ? all.first(0)
      : level == 1  ? all.first(names_at_level_1)
                    : all;
}

} // namespace

std::shared_ptr<monitor::Timers> make_timers(
    const config::Config& config,
    at::Device device) {
  monitor::TimeSource source;
  if (config.flags.logging.timing_log_level > 0 ||
      config.deepspeed.logging.wall_clock_breakdown) {
    source.synchronize = [device] { engine::synchronize(device); };
  }
  return std::make_shared<monitor::Timers>(std::move(source));
}

StepTimes::StepTimes(
    const config::LoggingFlags& flags,
    distributed::ProcessGroup world,
    std::shared_ptr<const monitor::Timers> timers)
    : names_(names_at(flags.timing_log_level)),
      option_(flags.timing_log_option.value_or("")),
      world_(std::move(world)),
      timers_(std::move(timers)) {}

/// Times in the order of the names, without timers that never ran.
std::vector<monitor::NamedValue> StepTimes::taken(
    monitor::TimerReader& reader,
    std::int64_t iterations) const {
  const auto all = reader.take(*timers_, static_cast<double>(iterations));
  std::vector<monitor::NamedValue> result;
  for (const std::string_view name : names_) {
    const auto found = std::ranges::find(all, name, &monitor::NamedValue::name);
    if (found != all.end()) {
      result.push_back(*found);
    }
  }
  return result;
}

std::vector<monitor::NamedValue> StepTimes::take(std::int64_t iterations) {
  return taken(here_, iterations);
}

std::string StepTimes::report(std::int64_t iterations) {
  if (option_.empty() || names_.empty()) {
    return {};
  }
  const auto mine = taken(everywhere_, iterations);
  const auto names = static_cast<std::int64_t>(names_.size());
  at::Tensor times = at::zeros({names, world_.size()}, at::kDouble);
  auto table = times.accessor<double, 2>();
  for (std::int64_t i = 0; i < names; ++i) {
    const auto found =
        std::ranges::find(mine, names_[i], &monitor::NamedValue::name);
    table[i][world_.rank()] = found == mine.end() ? 0 : found->value;
  }
  times = zero::sum_over(world_, times);
  const double* const all = times.const_data_ptr<double>();
  std::vector<monitor::RankTimes> rows;
  for (std::int64_t i = 0; i < names; ++i) {
    const double* const row = all + i * world_.size();
    rows.push_back({std::string(names_[i]), {row, row + world_.size()}});
  }
  return monitor::timing_report(option_, rows);
}

} // namespace cairn::pretrain
