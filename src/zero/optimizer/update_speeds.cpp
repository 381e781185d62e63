#include "zero/internal/update_speeds.h"

#include "zero/internal/bucket_shard.h"
#include "zero/internal/host_memory.h"
#include "zero/internal/visiting_tier.h"
#include "zero/optimizer/over_threads.h"
#include "zero/optimizer/place_of.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace cairn::zero {

namespace {

constexpr std::int64_t elements_of_bucket = 1 << 22;
constexpr int buckets = 6;
constexpr int rounds = 3;

at::Tensor filled(at::Device device, at::ScalarType type, double value) {
  return at::full(
      {elements_of_bucket},
      value,
      at::TensorOptions(type).device(device));
}

/// A bucket on the device of its update.
BucketShard shard_on(
    at::Device device,
    const ShardTensors& tensors,
    const UpdateTrial& trial) {
  BucketShard shard{
      .bucket = 0,
      .range = {0, elements_of_bucket},
      .weights = tensors.weights,
      .gradient = filled(device, trial.gradients, 1e-3),
      .copy = filled(device, at::kBFloat16, 1),
      .states = tensors.states,
      .update = 1};
  return shard;
}

ShardTensors tensors_on(
    at::Device device,
    const optim::Rule& rule,
    const UpdateTrial& trial) {
  const bool split = trial.types.split_weights && !device.is_cpu();
  ShardTensors tensors{filled(device, split ? at::kShort : at::kFloat, 0), {}};
  for (std::size_t i = 0; i < rule.state_names().size(); ++i) {
    tensors.states.push_back(filled(
        device,
        i < trial.types.states.size() ? trial.types.states[i] : at::kFloat,
        rule.initial_state()));
  }
  return tensors;
}

void update(
    const BucketShard& shard,
    const optim::Rule& rule,
    const optim::GroupValues& values) {
  const optim::StepValues step{.step = 1};
  const optim::Place place = place_of(shard.weights);
  at::Tensor direction;
  if (rule.scope() != optim::Scope::elementwise) {
    direction = filled(shard.weights.device(), at::kFloat, 0);
  }
  over_threads(
      stretch_of(shard, shard.range),
      place,
      [&](const kernels::Stretch& part, std::int64_t skip) {
        rule.update(
            part,
            values,
            step,
            place,
            direction.defined() ? direction.data_ptr<float>() + skip : nullptr);
      });
}

/// Updates of the quickest round, in parameters a second.
template <typename Round>
double speed_of(const Round& round) {
  double best = 0;
  for (int i = 0; i < rounds + 1; ++i) { // the first one warms up
    const auto begin = std::chrono::steady_clock::now();
    round();
    const std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - begin;
    if (i > 0) {
      best = std::max(
          best,
          static_cast<double>(buckets * elements_of_bucket) / time.count());
    }
  }
  return best;
}

} // namespace

UpdateSpeeds measure_update_speeds(
    const optim::Rule& rule,
    const optim::GroupValues& values,
    const UpdateTrial& trial) {
  const torch::autograd::AutoGradMode no_grad(false);
  UpdateSpeeds speeds;
  {
    // Each bucket has memory of its own, so that no cache holds it.
    std::vector<BucketShard> shards;
    for (int b = 0; b < buckets; ++b) {
      const at::Device cpu(at::kCPU);
      shards.push_back(shard_on(cpu, tensors_on(cpu, rule, trial), trial));
    }
    speeds.on_cpu = speed_of([&] {
      for (const BucketShard& shard : shards) {
        update(shard, rule, values);
      }
    });
  }
  const auto tier =
      make_visiting_tier({.device = trial.device, .pin = trial.pin});
  for (int b = 0; b < buckets; ++b) {
    tier->put(b, tensors_on(trial.device, rule, trial));
  }
  const BucketShard on_device =
      shard_on(trial.device, tensors_on(trial.device, rule, trial), trial);
  speeds.on_device = speed_of([&] {
    for (int b = 0; b < buckets; ++b) {
      const ShardTensors tensors = tier->acquire(b);
      if (b + 1 < buckets) {
        tier->prefetch(b + 1);
      }
      BucketShard shard = on_device;
      shard.weights = tensors.weights;
      shard.states = tensors.states;
      update(shard, rule, values);
      tier->give_back(b, true);
    }
    tier->settle();
    if (!trial.device.is_cpu()) {
      at::accelerator::synchronizeDevice(trial.device.index());
    }
  });
  return speeds;
}

} // namespace cairn::zero
