#include "engine/step/gradients.h"

#include "distributed/internal/agreement.h"
#include "engine/save/checkpoint_names.h"
#include "engine/save/kind_sink.h"
#include "engine/step/gradient_factors.h"
#include "kernels/internal/cpu/cpu.h"
#include "kernels/internal/cuda/clip.h"
#include "kernels/internal/cuda/cuda.h"
#include "zero/internal/bucket_shard.h"
#include "zero/internal/sum_over.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/DeviceGuard.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>

namespace cairn::inline engine {

namespace {

constexpr std::string_view gradient_kind = "gradient";

class ZeroCounter final : public checkpoints::Sink {
 public:
  void put(const checkpoints::TensorSlice& slice) override {
    zeros += slice.values.numel() -
        at::count_nonzero(slice.values).item<std::int64_t>();
  }
  std::int64_t zeros = 0;
};

/// Looks at the values where they are: gradients of billions of parameters are
/// not carried to the CPU.
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

Gradients::Gradients(
    const Job& job,
    const TrainedModel& trained,
    const SliceOwner& owner)
    : job_(job),
      trained_(trained),
      owner_(owner),
      after_(gradient_factors(job).after) {
  // By ranks and names, so that the order is the same everywhere.
  std::map<std::vector<int>, std::map<std::string, int>> buckets;
  for (int b = 0; b < trained.trainable_buckets(); ++b) {
    const int first = trained.layout->buckets()[b].members.front().parameter;
    if (share_of(b).summed.size() > 1) {
      buckets[share_of(b).summed].emplace(trained.parameters.names[first], b);
    }
  }
  for (const auto& [ranks, shared] : buckets) {
    const distributed::ProcessGroup group = job.mesh->model_parallel().subgroup(
        ranks,
        fmt::format("shared by {}", fmt::join(ranks, " ")));
    for (const auto& [name, bucket] : shared) {
      shared_.push_back({bucket, group});
    }
  }
}

void Gradients::finish() {
  trained_.reducer->finish_on_time();
  for (const Shared& shared : shared_) {
    at::Tensor gradient = trained_.reducer->gradient(shared.bucket);
    if (gradient.device() == job_.device) {
      shared.group.all_reduce(gradient).wait();
    } else {
      gradient.copy_(zero::sum_over(shared.group, gradient));
    }
  }
}

void Gradients::measure() {
  measure_on_time();
  if (any_latecomers()) {
    add_latecomers();
    measure_on_time();
  }
}

double Gradients::norm(double loss_scale) const {
  return std::sqrt(totals_[0].item<double>()) * after_ / loss_scale;
}

bool Gradients::stay_on_gpu() const {
  if (!sums_stay_on_gpu() || !kernels::cuda::has_kernels()) {
    return false;
  }
  for (int b = 0; b < trained_.trainable_buckets(); ++b) {
    if (!trained_.reducer->gradient(b).is_cuda()) {
      return false;
    }
  }
  return true;
}

std::optional<Gradients::Clipped> Gradients::clip_on_gpu(
    double loss_scale,
    double limit) {
  if (!stay_on_gpu()) {
    return std::nullopt;
  }
  const at::Tensor norms = totals_.narrow(0, 0, 1).sqrt().to(at::kFloat);
  Clipped clipped{
      at::empty({}, norms.options().dtype(at::kDouble)),
      at::empty({}, norms.options())};
  const c10::OptionalDeviceGuard guard(norms.device());
  if (const char* failure = kernels::cuda::clip_factor(
          norms.const_data_ptr<float>(),
          norms.numel(),
          {.factor = factor(loss_scale), .limit = limit},
          clipped.norm.mutable_data_ptr<double>(),
          clipped.factor.mutable_data_ptr<float>(),
          kernels::cuda::current_stream(norms.get_device()))) {
    throw InternalError({.what = failure, .where = "clipping"});
  }
  return clipped;
}

/// The elements of a bucket whose gradient is here.
zero::Range Gradients::held(int bucket) const {
  return trained_.reducer->options().shards
      ? owner_.shard(bucket)
      : zero::Range{0, trained_.layout->buckets()[bucket].elements};
}

/// The share of a bucket's parameters: it is the same for all of them.
const ParameterShare& Gradients::share_of(int bucket) const {
  const zero::Bucket& plan = trained_.layout->buckets()[bucket];
  return trained_.shares.parameters[plan.members.front().parameter];
}

/// True when sums over ranks are made on this rank's GPU.
bool Gradients::sums_stay_on_gpu() const {
  return job_.device.is_cuda() &&
      (job_.world.size() == 1 || job_.world.group().backend() == "nccl");
}

/// The squares that this rank speaks for, such that the sum over all ranks of
/// the job is the sum over all parameters: what several ranks have counts on
/// each of them for its part.
at::Tensor Gradients::own_squares(at::Device device) {
  const bool shards = trained_.reducer->options().shards;
  std::vector<at::Tensor> of_all;
  std::vector<at::Tensor> of_experts;
  for (int b = 0; b < trained_.trainable_buckets(); ++b) {
    if (owner_.speaks_for(share_of(b))) {
      (trained_.layout->buckets()[b].expert ? of_experts : of_all)
          .push_back(trained_.reducer->gradient(b));
    }
  }
  const double ranks = job_.group.size();
  const double owners = shards ? job_.groups.shards.size() : 1;
  at::Tensor sum = squares_of_all_(device, of_all).mul_(owners / ranks);
  if (!of_experts.empty()) {
    const double expert_owners =
        shards ? owners : job_.mesh->degree(distributed::Axis::expert);
    sum.add_(
        squares_of_experts_(device, of_experts).mul_(expert_owners / ranks));
  }
  return sum;
}

void Gradients::measure_on_time() {
  const at::Device device = sums_stay_on_gpu() ? job_.device : at::kCPU;
  const at::Tensor squares = own_squares(device);
  const double late = trained_.reducer->has_latecomers() ? 1 : 0;
  totals_ = zero::sum_over(
      job_.mesh ? job_.mesh->world() : job_.world.group(),
      at::cat({squares, at::full({1}, late, squares.options())}));
}

/// Returns true if any rank has latecomers, on all ranks alike. Comes after
/// measure_on_time(), and waits for the GPU where only one rank may know.
bool Gradients::any_latecomers() const {
  if (!trained_.reducer->may_have_latecomers()) {
    return false;
  }
  return job_.world.size() == 1 ? trained_.reducer->has_latecomers()
                                : totals_[1].item<double>() > 0;
}

/// Sums what came late, and adds it to the gradients. All ranks call it.
void Gradients::add_latecomers() {
  zero::GradientReducer& reducer = *trained_.reducer;
  std::vector<at::Tensor> sums = reducer.sum_latecomers();
  for (const Shared& shared : shared_) {
    at::Tensor& sum = sums[shared.bucket];
    const at::TensorOptions type =
        at::TensorOptions(job_.device).dtype(reducer.options().accumulate);
    sum = sum.defined()
        ? sum.to(type)
        : at::zeros({reducer.gradient(shared.bucket).numel()}, type);
    shared.group.all_reduce(sum).wait();
  }
  for (std::size_t b = 0; b < sums.size(); ++b) {
    if (sums[b].defined()) {
      reducer.add_latecomers(static_cast<int>(b), sums[b]);
    }
  }
}

std::int64_t Gradients::zeros() const {
  ZeroCounter counter;
  for (int b = 0; b < trained_.trainable_buckets(); ++b) {
    owner_
        .put(counter, b, held(b), gradient_kind, trained_.reducer->gradient(b));
  }
  return zero::sum_over(
             job_.world.group(),
             at::full({1}, counter.zeros, at::kLong))
      .item<std::int64_t>();
}

std::string Gradients::first_non_finite() const {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (int b = 0; b < trained_.trainable_buckets(); ++b) {
    at::Tensor gradient = trained_.reducer->gradient(b);
    owner_.for_each_slice(
        b,
        held(b),
        gradient,
        [&](const zero::Slice& slice, const at::Tensor& part) {
          if (slice.parameter < first && !is_finite(part)) {
            first = slice.parameter;
          }
        });
  }
  first = zero::sum_over(
              job_.group,
              at::full({1}, first, at::kLong),
              distributed::ReduceOp::min)
              .item<std::int64_t>();
  const auto& names = trained_.parameters.names;
  const std::string here =
      first < static_cast<std::int64_t>(names.size()) ? names[first] : "";
  const std::string name = job_.mesh ? first_of_model(here) : here;
  return name.empty() ? "the sum of all" : name;
}

/// The first text that is not empty, of all ranks that hold a part of the
/// model.
std::string Gradients::first_of_model(const std::string& text) const {
  distributed::Agreement agreement(
      job_.mesh->model_parallel(),
      "first of model");
  return agreement(
      "step",
      text,
      [](const std::vector<std::string>& texts) {
        const auto found = std::ranges::find_if_not(texts, &std::string::empty);
        return found == texts.end() ? "" : *found;
      },
      std::chrono::minutes(1));
}

void Gradients::show(const VisitTensorSlice& visit, double factor) const {
  const torch::autograd::AutoGradMode no_grad(false);
  KindSink sink(gradient_kind, visit);
  for (int b = 0; b < trained_.trainable_buckets(); ++b) {
    at::Tensor values = trained_.reducer->gradient(b);
    if (factor != 1) {
      values = values.to(at::kFloat) * factor;
    }
    owner_.put(sink, b, held(b), gradient_kind, values);
  }
}

} // namespace cairn::engine
