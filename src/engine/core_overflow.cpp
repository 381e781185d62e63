#include "engine/core.h"
#include "kernels/cpu/cpu.h"
#include "zero/bucket_shard.h"
#include "zero/sum_over.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/distributed/agreement.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

// What becomes of a step whose gradients are not finite.

namespace cairn::engine {

namespace {

/// Looked at where it is: gradients of billions are not carried to the CPU.
bool is_finite(const at::Tensor& part) {
  if (!part.is_cpu()) {
    return at::isfinite(part).all().item<bool>();
  }
  return kernels::cpu::first_non_finite(
             part.const_data_ptr(),
             zero::element_of(part.scalar_type()),
             part.numel()) < 0;
}

} // namespace

bool Core::overflows(double norm) const {
  const bool checked = config().fp16.enabled || config().amp.enabled ||
      (config().bf16.enabled && config().bf16.check_grad_overflow);
  return checked && !std::isfinite(norm);
}

/// The name of the first parameter with an inf or nan in its gradient.
std::string Core::first_non_finite() const {
  const bool shards = reducer_->options().shards;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (int b = 0; b < flat_->buckets() && layout_->buckets()[b].trainable;
       ++b) {
    const at::Tensor gradient = reducer_->gradient(b);
    const zero::Range range = shards
        ? layout_->shard(b, rank_in(b))
        : zero::Range{0, layout_->buckets()[b].elements};
    for (const zero::Slice& slice : layout_->slices(b, range)) {
      const at::Tensor part = gradient.narrow(
          0,
          slice.offset - range.begin,
          slice.in_parameter.size());
      if (slice.parameter < first && !is_finite(part)) {
        first = slice.parameter;
      }
    }
  }
  first = zero::sum_over(
              group_,
              at::full({1}, first, at::kLong),
              distributed::ReduceOp::min)
              .item<std::int64_t>();
  const std::string here =
      first < static_cast<std::int64_t>(parameters_.names.size())
      ? parameters_.names[first]
      : "";
  const std::string name = mesh_ ? first_of_model(here) : here;
  return name.empty() ? "the sum of all" : name;
}

/// The first text that is not empty, of all ranks that hold a part of the
/// model.
std::string Core::first_of_model(const std::string& text) const {
  distributed::Agreement agreement(mesh_->model_parallel(), "first of model");
  return agreement(
      "step",
      text,
      [](const std::vector<std::string>& texts) {
        const auto found = std::ranges::find_if_not(texts, &std::string::empty);
        return found == texts.end() ? "" : *found;
      },
      std::chrono::minutes(1));
}

Core::Skipped Core::skip_step() {
  const std::string culprit = first_non_finite();
  const double before = scaler_.scale();
  const optim::ScaleChange change = scaler_.update(true);
  ++counters_.skipped_steps;
  if (change == optim::ScaleChange::at_minimum) {
    return overflow_at_minimum(culprit);
  }
  if (world_.rank() == 0) {
    logger_.warning(
        "step {} skipped: the gradient of {} is not finite; loss scale {} -> "
        "{}",
        counters_.global_steps,
        culprit,
        before,
        scaler_.scale());
  }
  return Skipped::counts;
}

Core::Skipped Core::overflow_at_minimum(const std::string& culprit) {
  switch (config().fp16.at_minimum_scale) {
    case config::AtMinimumScale::stop:
      break;
    case config::AtMinimumScale::hold:
      ++held_steps_;
      // A run that has come to nothing would fill its log with these.
      if (world_.rank() == 0 && std::has_single_bit(held_steps_)) {
        logger_.warning(
            "step {} skipped at the smallest loss scale {}: the gradient of {} "
            "is not finite; {} so far",
            counters_.global_steps,
            scaler_.scale(),
            culprit,
            held_steps_);
      }
      return Skipped::counts;
    case config::AtMinimumScale::roll_back:
      roll_back(culprit);
      return Skipped::is_undone;
  }
  stop_at_minimum(culprit, "");
}

/// To the last checkpoint, unless that was tried for this step or a later one:
/// what has failed twice in the same place would fail for ever.
void Core::roll_back(const std::string& culprit) {
  const std::int64_t failed = counters_.global_steps;
  if (!last_checkpoint_) {
    stop_at_minimum(culprit, "; there is no checkpoint to roll back to");
  }
  if (failed <= rolled_back_from_) {
    stop_at_minimum(
        culprit,
        fmt::format(
            "; a roll back from step {} did not help",
            rolled_back_from_));
  }
  rolled_back_from_ = failed;
  const Checkpoint from = *last_checkpoint_;
  load_checkpoint(from.folder, from.tag, {.data = false}); // the data go on
  if (world_.rank() == 0) {
    logger_.warning(
        "gradients overflow at the smallest loss scale in step {}, first that "
        "of {}: rolled back to step {}, {}",
        failed,
        culprit,
        counters_.global_steps,
        (from.folder / from.tag).string());
  }
}

void Core::stop_at_minimum(const std::string& culprit, const std::string& why)
    const {
  throw Error(
      {.what = "gradients overflow at the smallest loss scale" + why,
       .where = fmt::format("step {}, {}", counters_.global_steps, culprit),
       .values = fmt::format("loss scale {}", scaler_.scale()),
       .remedy = "use bf16, lower the learning rate, or look at this "
                 "parameter's input"});
}

} // namespace cairn::engine
