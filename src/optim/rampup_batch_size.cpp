#include <cairn/base/error.h>
#include <cairn/optim/rampup_batch_size.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace cairn::optim {
namespace {

void require(bool holds, std::string_view what, std::string values) {
  if (!holds) {
    throw ConfigError(
        {.what = std::string(what),
         .where = "--rampup-batch-size",
         .values = std::move(values)});
  }
}

} // namespace

RampupBatchSize::RampupBatchSize(
    std::optional<Rampup> rampup,
    std::int64_t global_batch_size,
    BatchShare share,
    bool decrease_if_needed)
    : rampup_(rampup),
      global_batch_size_(global_batch_size),
      share_(share),
      decrease_if_needed_(decrease_if_needed) {
  if (!rampup) {
    const BatchSize size = decrease_if_needed
        ? share.rounded_down(global_batch_size)
        : share.whole(global_batch_size);
    require(
        size.microbatches >= 1,
        "the global batch is smaller than one microbatch on every rank",
        fmt::format("{}", global_batch_size));
    return;
  }
  const auto [start, increment, samples] = *rampup;
  const auto values = fmt::format(
      "{} {} {}, global batch size {}",
      start,
      increment,
      samples,
      global_batch_size);
  require(
      start > 0 && increment > 0 && samples > 0,
      "start, increment and samples must be positive",
      values);
  require(
      start < global_batch_size,
      "the start must be below the global batch size",
      values);
  require(
      (global_batch_size - start) % increment == 0,
      "the increment must lead from the start to the global batch size",
      values);
}

RampupBatchSize::RampupBatchSize(BatchSteps steps, BatchShare share)
    : steps_(std::move(steps)),
      global_batch_size_(steps_.empty() ? 0 : steps_.back().second),
      share_(share),
      decrease_if_needed_(false) {
  if (steps_.empty() || steps_.front().first != 0) {
    throw ConfigError(
        {.what = "there is no batch for the first sample",
         .where = "--step-batch-size-schedule"});
  }
}

std::int64_t RampupBatchSize::global_at(std::int64_t consumed_samples) const {
  if (!steps_.empty()) {
    auto next = std::ranges::upper_bound(
        steps_,
        consumed_samples,
        {},
        &BatchSteps::value_type::first);
    return next == steps_.begin() ? next->second : std::prev(next)->second;
  }
  if (!rampup_ || consumed_samples > rampup_->samples) {
    return global_batch_size_;
  }
  // Floating point rounds as Megatron does.
  const std::int64_t increments =
      (global_batch_size_ - rampup_->start) / rampup_->increment;
  const double each =
      static_cast<double>(rampup_->samples) / static_cast<double>(increments);
  const auto steps =
      static_cast<std::int64_t>(static_cast<double>(consumed_samples) / each);
  return rampup_->start + steps * rampup_->increment;
}

BatchSize RampupBatchSize::at(std::int64_t consumed_samples) const {
  const std::int64_t global = global_at(consumed_samples);
  return decrease_if_needed_ ? share_.rounded_down(global)
                             : share_.whole(global);
}

} // namespace cairn::optim
