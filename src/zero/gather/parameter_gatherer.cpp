#include "zero/internal/parameter_gatherer.h"

#include "kernels/internal/cuda/cuda.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace cairn::zero {

namespace {

/// Number of the last used buckets that stay while a pass is unknown: operators
/// go back and forth between neighbours.
constexpr std::size_t kept_without_trace = 2;

std::vector<std::int64_t> elements_of(const Layout& layout) {
  std::vector<std::int64_t> elements;
  for (const Bucket& bucket : layout.buckets()) {
    elements.push_back(bucket.elements);
  }
  return elements;
}

} // namespace

ParameterGatherer::ParameterGatherer(
    const Layout& layout,
    FlatParameters& parameters,
    const Options& options)
    : layout_(layout),
      parameters_(parameters),
      options_(options),
      traces_(2, UseTrace(elements_of(layout))),
      pins_(layout.buckets().size(), 0),
      observer_(*this) {
  for (int b = 0; b < parameters.buckets(); ++b) {
    if (parameters.partitioned(b)) {
      observer_.watch(parameters.storage(b), b);
    }
  }
}

void ParameterGatherer::before_use(int bucket, std::int64_t offset) noexcept {
  const std::lock_guard lock(mutex_);
  ++pins_[bucket];
  const int parameter = parameter_at(bucket, offset);
  try {
    use(bucket, parameter);
  } catch (...) {
    if (!failure_) {
      failure_ = failure_of(parameter);
    }
    // The operator runs whatever we do. If memory is short, releasing these
    // gives room for the values that it will read.
    for (const int other : std::vector<int>(recent_)) {
      if (may_release(other)) {
        release(other);
      }
    }
    parameters_.fill_missing(bucket);
  }
}

void ParameterGatherer::after_use(int bucket) noexcept {
  const std::lock_guard lock(mutex_);
  --pins_[bucket];
}

/// The parameter of a bucket that has this element of it.
int ParameterGatherer::parameter_at(int bucket, std::int64_t offset) const {
  const std::vector<Placement>& members = layout_.buckets()[bucket].members;
  const auto next =
      std::ranges::upper_bound(members, offset, {}, &Placement::offset);
  return next == members.begin() ? members.front().parameter
                                 : std::prev(next)->parameter;
}

/// The error under way, with what this rank used when it came if other ranks
/// have to do with it.
std::exception_ptr ParameterGatherer::failure_of(int parameter) const {
  try {
    throw;
  } catch (const CommError& error) {
    Problem problem = error.problem();
    problem.values += fmt::format(
        "{}an operator of this rank was about to use {}",
        problem.values.empty() ? "" : "; ",
        layout_.parameters()[parameter].name);
    if (problem.remedy.empty()) {
      problem.remedy = same_operators;
    }
    return std::make_exception_ptr(CommError(std::move(problem)));
  } catch (...) {
    return std::current_exception();
  }
}

/// Throws if the operator is recorded for a CUDA graph, whose repetitions would
/// read the weights where they are no longer.
void ParameterGatherer::refuse_recording(int parameter) {
  const at::Device device = parameters_.parameters().at(0).device();
  if (!device.is_cuda() || !kernels::cuda::is_recording(device.index())) {
    return;
  }
  if (!recorded_) {
    recorded_ = std::make_exception_ptr(UsageError(
        {.what = "weights of ZeRO stage 3 cannot be part of a CUDA graph: each "
                 "pass has them at other addresses",
         .where = layout_.parameters()[parameter].name,
         .remedy = "make the engine again, and record what uses no weights of "
                   "the model, or take stage 0, 1 or 2"}));
  }
  std::rethrow_exception(recorded_);
}

void ParameterGatherer::use(int bucket, int parameter) {
  refuse_recording(parameter);
  if (!recent_.empty() && recent_.back() == bucket &&
      parameters_.live(bucket)) {
    return;
  }
  if (!parameters_.live(bucket)) {
    if (!parameters_.gathering(bucket)) {
      ++counts_.on_demand;
      begin(bucket, parameter);
    }
    parameters_.finish_gather(bucket);
  }
  std::erase(recent_, bucket);
  recent_.push_back(bucket);
  trace().note(bucket);
  release_far(bucket);
  fetch_ahead();
}

void ParameterGatherer::begin(int bucket, int parameter, bool exact) {
  const std::int64_t elements = layout_.buckets()[bucket].elements;
  // Ranks that share experts are others than those that share the rest.
  if (!layout_.buckets()[bucket].expert) {
    order_.note(bucket, parameter);
  }
  make_room(elements, bucket);
  parameters_.begin_gather(bucket, exact);
  live_ += elements;
  ++counts_.gathers;
  counts_.most_live = std::max(counts_.most_live, live_);
}

bool ParameterGatherer::may_release(int bucket) const {
  return pins_[bucket] == 0 && parameters_.live(bucket);
}

void ParameterGatherer::release(int bucket) {
  parameters_.release(bucket);
  live_ -= layout_.buckets()[bucket].elements;
  std::erase(recent_, bucket);
  ++counts_.releases;
}

/// Releases the buckets whose next use is farthest, until `elements` more may
/// live.
void ParameterGatherer::make_room(std::int64_t elements, int for_bucket) {
  while (live_ + elements > options_.max_live) {
    int farthest = -1;
    std::int64_t distance = -1;
    for (const int bucket : recent_) { // the longest unused come first
      if (bucket == for_bucket || !may_release(bucket)) {
        continue;
      }
      const std::int64_t its = trace().distance_to(bucket).value_or(
          std::numeric_limits<std::int64_t>::max());
      if (its > distance) {
        farthest = bucket;
        distance = its;
      }
    }
    if (farthest < 0) {
      return; // all are in use: the model needs more than the limit
    }
    release(farthest);
  }
}

void ParameterGatherer::release_far(int current) {
  const bool known = trace().predicts();
  const std::vector<int> candidates = recent_;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const int bucket = candidates[i];
    if (bucket == current || !may_release(bucket)) {
      continue;
    }
    const auto distance = trace().distance_to(bucket);
    const bool near = known
        ? distance && *distance <= options_.max_reuse_distance
        : i + kept_without_trace >= candidates.size();
    if (!near) {
      release(bucket);
    }
  }
}

void ParameterGatherer::fetch_ahead() {
  for (const int bucket : trace().upcoming(options_.prefetch)) {
    if (parameters_.live(bucket) || parameters_.gathering(bucket)) {
      continue;
    }
    if (live_ + layout_.buckets()[bucket].elements > options_.max_live) {
      break;
    }
    begin(bucket, parameter_at(bucket, 0));
  }
}

void ParameterGatherer::finish_pass(Mode mode) {
  const std::lock_guard lock(mutex_);
  UseTrace& finished = traces_[static_cast<int>(mode)];
  counts_.strayed_passes += finished.strayed() ? 1 : 0;
  finished.finish_pass();
}

void ParameterGatherer::set_mode(Mode mode) {
  const std::lock_guard lock(mutex_);
  mode_ = mode;
}

void ParameterGatherer::release_all() {
  const std::lock_guard lock(mutex_);
  for (int b = 0; b < parameters_.buckets(); ++b) {
    if (parameters_.partitioned(b) && pins_[b] == 0 &&
        (parameters_.live(b) || parameters_.gathering(b))) {
      release(b);
    }
  }
  // Comes last: a gather that was still under way left a second copy as well.
  parameters_.forget_second_copies();
}

void ParameterGatherer::pin(int bucket) {
  const std::lock_guard lock(mutex_);
  if (!parameters_.partitioned(bucket) || pins_[bucket]++ > 0) {
    return;
  }
  if ((parameters_.live(bucket) || parameters_.gathering(bucket)) &&
      !parameters_.exact(bucket)) {
    release(bucket);
  }
  if (!parameters_.live(bucket)) {
    if (!parameters_.gathering(bucket)) {
      begin(bucket, parameter_at(bucket, 0), /*exact=*/true);
    }
    parameters_.finish_gather(bucket);
    recent_.push_back(bucket);
  }
}

void ParameterGatherer::unpin(int bucket) {
  const std::lock_guard lock(mutex_);
  if (!parameters_.partitioned(bucket) || --pins_[bucket] > 0) {
    return;
  }
  // After a pin, operators are to see the values that they see without it.
  if (parameters_.rounds(bucket) && parameters_.exact(bucket) &&
      parameters_.live(bucket)) {
    release(bucket);
  }
}

void ParameterGatherer::rethrow() {
  const std::lock_guard lock(mutex_);
  if (failure_) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  if (recorded_) {
    std::rethrow_exception(recorded_);
  }
}

void ParameterGatherer::send_order() {
  const std::lock_guard lock(mutex_);
  order_.send(
      parameters_.groups().shards,
      parameters_.parameters().at(0).device());
}

void ParameterGatherer::compare_orders() {
  const std::lock_guard lock(mutex_);
  order_.compare(
      [&](int parameter) { return layout_.parameters()[parameter].name; });
}

ParameterGatherer::Counts ParameterGatherer::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

} // namespace cairn::zero
