#include "zero/internal/rule_optimizer.h"

#include "kernels/internal/cuda/cuda.h"
#include "zero/internal/host_memory.h"
#include "zero/optimizer/split_weights.h"
#include "zero/reduce/take_changed.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <utility>

namespace cairn::zero {

RuleOptimizer::RuleOptimizer(
    const Layout& layout,
    FlatParameters& parameters,
    std::unique_ptr<optim::Rule> rule,
    RankGroups owners,
    Options options,
    std::unique_ptr<ShardTier> tier)
    : layout_(layout),
      parameters_(parameters),
      rule_(std::move(rule)),
      access_(layout, parameters, std::move(owners), options.partition),
      options_(std::move(options)),
      tier_(std::move(tier)),
      update_(
          layout,
          *rule_,
          access_.partitions() ? access_.owners() : RankGroups()),
      copies_(parameters.whole(0).device()) {
  const torch::autograd::AutoGradMode no_grad(false);
  // A tier with several places fills them in this order, so the layers that
  // are computed last are those whose states have the longest way.
  const std::vector<int> order = trainable_in_forward_order();
  in_place_.resize(order.size());
  split_.resize(order.size());
  for (const int b : order) {
    const at::Tensor from = access_.open(b, false);
    in_place_[b] = from.scalar_type() == at::kFloat &&
        (from.is_cpu() || !options_.on_cpu) && tier_->keeps_memory() &&
        access_.keeps_memory(b);
    split_[b] = splits_weights(from);
    tier_->put(b, first_tensors(b, from));
    access_.close(b, false);
  }
  if (updates_jointly()) {
    joint_ = std::make_unique<JointUpdate>(
        layout,
        *rule_,
        tier_->acquire(0).weights.device());
  }
}

/// True when one launch can update all buckets: they rest on a GPU, and nobody
/// waits for the first of them while the others are updated.
bool RuleOptimizer::updates_jointly() const {
  if (in_place_.empty() || rule_->scope() != optim::Scope::elementwise ||
      options_.arriving != nullptr || !tier_->keeps_memory() ||
      !kernels::cuda::has_kernels()) {
    return false;
  }
  for (int b = 0; b < static_cast<int>(in_place_.size()); ++b) {
    if (!access_.keeps_memory(b) || !tier_->acquire(b).weights.is_cuda()) {
      return false;
    }
  }
  return true;
}

/// True when the update finds bf16 parameters where it runs.
bool RuleOptimizer::splits_weights(const at::Tensor& parameters) const {
  return options_.types.split_weights &&
      parameters.scalar_type() == at::kBFloat16 &&
      (parameters.is_cpu() || !options_.on_cpu);
}

ShardTensors RuleOptimizer::first_tensors(
    int bucket,
    const at::Tensor& parameters) const {
  ShardTensors tensors;
  tensors.weights = split_[bucket]
      ? at::zeros_like(parameters, parameters.options().dtype(at::kShort))
      : in_place_[bucket] ? parameters
                          : weights_of(parameters);
  std::size_t states = 0;
  for (const Placement& member : layout_.buckets()[bucket].members) {
    const ParameterSpec& spec = layout_.parameters()[member.parameter];
    states = std::max(states, rule_->states_of(spec.name, spec.shape));
  }
  for (std::size_t i = 0; i < states; ++i) {
    tensors.states.push_back(at::full_like(
        tensors.weights,
        rule_->initial_state(),
        tensors.weights.options().dtype(
            i < options_.types.states.size() ? options_.types.states[i]
                                             : at::kFloat)));
  }
  return tensors;
}

/// A fp32 copy of the parameters, on the device where the update runs.
at::Tensor RuleOptimizer::weights_of(const at::Tensor& parameters) const {
  if (!options_.on_cpu || parameters.is_cpu()) {
    return parameters.to(at::kFloat, false, /*copy=*/true);
  }
  // Page-locked, because the device copies fp32 parameters straight from here.
  at::Tensor weights = host_memory(
      parameters.numel(),
      at::kFloat,
      options_.pin && parameters.scalar_type() == at::kFloat &&
          tier_->keeps_memory());
  return weights.copy_(parameters);
}

std::vector<int> RuleOptimizer::trainable_in_forward_order() const {
  std::vector<int> order;
  for (int b = parameters_.buckets() - 1; b >= 0; --b) {
    if (layout_.buckets()[b].trainable) {
      order.push_back(b);
    }
  }
  return order;
}

/// The memory for the kernel's 16-bit weights: the parameters themselves if
/// they are on the same device.
at::Tensor RuleOptimizer::kernel_output(
    const at::Tensor& to,
    const at::Tensor& weights) {
  if (to.scalar_type() == at::kFloat) {
    return {};
  }
  if (to.device() == weights.device()) {
    return to;
  }
  Staging& staging = staging_[next_staging_++ % staging_.size()];
  staging.gone.wait_on_host();
  if (!staging.memory.defined() || staging.memory.numel() < to.numel()) {
    staging.memory = host_memory(to.numel(), to.scalar_type(), options_.pin);
  }
  return staging.memory.narrow(0, 0, to.numel());
}

void RuleOptimizer::step(
    const GradientReducer& gradients,
    const GradientFactor& factor) {
  const torch::autograd::AutoGradMode no_grad(false);
  settle();
  if (joint_) {
    send_numbers(factor.on_gpu.defined() ? 1 : factor.number);
    queue_update(gradients, factor);
    return;
  }
  ++steps_;
  if (!options_.beside) {
    update_all(gradients, factor);
    return;
  }
  copies_.follow();
  copies_.keep(factor.on_gpu);
  copies_.beside([&] { update_all(gradients, factor); });
}

void RuleOptimizer::send_numbers(double factor) {
  ++steps_;
  joint_->send_numbers(
      options_.groups,
      {.step = steps_, .gradient_factor = factor});
}

void RuleOptimizer::queue_update(
    const GradientReducer& gradients,
    const GradientFactor& factor) {
  const torch::autograd::AutoGradMode no_grad(false);
  const std::vector<int> order = trainable_in_forward_order();
  std::vector<BucketShard> shards;
  for (const int b : order) {
    const ShardTensors tensors = tier_->acquire(b);
    const at::Tensor to = parameters_to_write(b, tensors.weights);
    shards.push_back(shard_of(b, tensors, to, gradients, factor));
  }
  joint_->queue(shards);
  std::vector<std::shared_ptr<distributed::Pending>> publishing;
  for (const int b : order) {
    if (!in_place_[b]) {
      access_.close(b, true);
    }
    tier_->give_back(b, true);
    publish_when_there(b, publishing);
  }
  for (const auto& pending : publishing) {
    pending->wait();
  }
}

/// The parameters that the update of a bucket writes.
at::Tensor RuleOptimizer::parameters_to_write(
    int bucket,
    const at::Tensor& weights) {
  return in_place_[bucket] ? weights
                           : access_.open(bucket, /*blank=*/!split_[bucket]);
}

BucketShard RuleOptimizer::shard_of(
    int bucket,
    const ShardTensors& tensors,
    const at::Tensor& to,
    const GradientReducer& gradients,
    const GradientFactor& factor) {
  return {
      .bucket = bucket,
      .range = access_.range(bucket),
      .weights = tensors.weights,
      .gradient = gradients.gradient(bucket),
      .gradient_factor = factor.on_gpu,
      .copy = kernel_output(to, tensors.weights),
      .states = tensors.states,
      .update = steps_};
}

/// Sends updated weights to the other ranks, where they need them.
void RuleOptimizer::publish_when_there(
    int bucket,
    std::vector<std::shared_ptr<distributed::Pending>>& publishing) {
  if (!access_.is_published(bucket)) {
    return;
  }
  auto pending =
      std::make_shared<distributed::Pending>(parameters_.publish(bucket));
  if (options_.arriving != nullptr) {
    options_.arriving->add(bucket, [pending] { pending->wait(); });
  } else {
    publishing.push_back(std::move(pending));
  }
}

void RuleOptimizer::update_all(
    const GradientReducer& gradients,
    const GradientFactor& factor) {
  const optim::StepValues step{
      .step = steps_,
      .gradient_factor = factor.on_gpu.defined() ? 1 : factor.number};
  const std::vector<int> order = trainable_in_forward_order();
  std::vector<CopyMark> leaving;
  std::vector<std::shared_ptr<distributed::Pending>> publishing;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int b = order[i];
    const ShardTensors tensors = tier_->acquire(b);
    if (i + 1 < order.size()) {
      tier_->prefetch(order[i + 1]);
    }
    const at::Tensor to = parameters_to_write(b, tensors.weights);
    const BucketShard shard = shard_of(b, tensors, to, gradients, factor);
    update_.update(shard, options_.groups, step);
    CopyMark there;
    const at::Tensor& from = shard.copy.defined() ? shard.copy : shard.weights;
    if (from.data_ptr() != to.data_ptr()) {
      there = copies_.copy(to, from);
      if (shard.copy.defined()) {
        staging_[(next_staging_ - 1) % staging_.size()].gone = there;
      } else if (!tier_->keeps_memory()) {
        // The memory of the weights is about to be another bucket's.
        there.wait_on_host();
      }
      leaving.push_back(there);
    }
    if (!in_place_[b]) {
      access_.close(b, true);
    }
    tier_->give_back(b, true);
    if (options_.beside) {
      copies_.keep(shard.gradient);
      options_.arriving->add(b, [updated = copies_.end_so_far()] {
        updated.wait_on_device();
      });
    }
    if (access_.is_published(b)) {
      there.wait_on_device();
    }
    publish_when_there(b, publishing);
  }
  for (const CopyMark& mark : leaving) {
    mark.wait_on_device();
  }
  for (const auto& pending : publishing) {
    pending->wait();
  }
}

void RuleOptimizer::settle() {
  if (options_.arriving != nullptr) {
    options_.arriving->wait_all();
  }
}

void RuleOptimizer::refresh_weights(int bucket) {
  settle();
  if (!layout_.buckets()[bucket].trainable || in_place_[bucket]) {
    return;
  }
  const torch::autograd::AutoGradMode no_grad(false);
  const at::Tensor weights = tier_->acquire(bucket).weights;
  const at::Tensor given = access_.open(bucket, false);
  if (split_[bucket]) {
    clear_foreign_remainders(given, weights);
  } else {
    take_changed(weights, given);
  }
  access_.close(bucket, false);
  tier_->give_back(bucket, true);
  tier_->settle();
}

void RuleOptimizer::publish_weights() {
  settle();
  const torch::autograd::AutoGradMode no_grad(false);
  for (const int b : trainable_in_forward_order()) {
    if (!in_place_[b] && !split_[b]) {
      access_.open(b, /*blank=*/true).copy_(tier_->acquire(b).weights);
      access_.close(b, true);
      tier_->give_back(b, false);
    }
    if (access_.is_published(b)) {
      parameters_.publish(b).wait();
    }
  }
}

void RuleOptimizer::visit(bool write, const Visit& visit) {
  settle();
  const torch::autograd::AutoGradMode no_grad(false);
  for (int b = 0; b < parameters_.buckets(); ++b) {
    if (!layout_.buckets()[b].trainable) {
      break;
    }
    ShardTensors tensors = tier_->acquire(b);
    if (split_[b]) {
      const at::Tensor parameters = access_.open(b, /*blank=*/false);
      at::Tensor weights = joined_weights(parameters, tensors.weights);
      visit(b, access_.range(b), "weight", weights);
      if (write) {
        split_weights(weights, parameters, tensors.weights);
      }
      access_.close(b, write);
    } else {
      visit(b, access_.range(b), "weight", tensors.weights);
    }
    for (std::size_t i = 0; i < tensors.states.size(); ++i) {
      at::Tensor wide = tensors.states[i].to(at::kFloat);
      visit(b, access_.range(b), rule_->state_names()[i], wide);
      if (write && tensors.states[i].scalar_type() != at::kFloat) {
        tensors.states[i].copy_(wide);
      }
    }
    tier_->give_back(b, write);
  }
  tier_->settle();
}

std::vector<ShardedOptimizer::Held> RuleOptimizer::held() {
  std::vector<Held> all;
  for (int b = 0; b < parameters_.buckets(); ++b) {
    if (!layout_.buckets()[b].trainable) {
      break;
    }
    all.push_back({b, access_.range(b), "weight"});
    for (const auto& name : rule_->state_names()) {
      all.push_back({b, access_.range(b), std::string(name)});
    }
  }
  return all;
}

ShardTier::Bytes RuleOptimizer::bytes() const {
  ShardTier::Bytes bytes = tier_->bytes();
  for (const int b : trainable_in_forward_order()) {
    if (in_place_[b]) {
      bytes.memory -= access_.range(b).size() * std::int64_t{sizeof(float)};
    }
  }
  for (const Staging& staging : staging_) {
    if (staging.memory.defined()) {
      bytes.memory += static_cast<std::int64_t>(staging.memory.nbytes());
    }
  }
  return bytes;
}

} // namespace cairn::zero
