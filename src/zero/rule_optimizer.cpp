#include "zero/rule_optimizer.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <utility>

namespace cairn::zero {

RuleOptimizer::RuleOptimizer(
    const Layout& layout,
    FlatParameters& parameters,
    std::unique_ptr<optim::Rule> rule,
    distributed::ProcessGroup group,
    Options options,
    std::unique_ptr<ShardTier> tier)
    : layout_(layout),
      parameters_(parameters),
      rule_(std::move(rule)),
      group_(std::move(group)),
      options_(std::move(options)),
      tier_(std::move(tier)) {
  options_.partition = options_.partition && group_.size() > 1;
  update_ = make_bucket_update(
      layout,
      *rule_,
      options_.partition ? group_ : distributed::ProcessGroup());
  const torch::autograd::AutoGradMode no_grad(false);
  for (int b = 0; b < parameters.buckets(); ++b) {
    if (!layout.buckets()[b].trainable) {
      break; // they come last
    }
    const at::Tensor from = target(b);
    const at::Device device = options_.on_cpu ? at::kCPU : from.device();
    in_place_ = from.scalar_type() == at::kFloat && from.device() == device &&
        tier_->keeps_memory();
    ShardTensors tensors{
        .weights = in_place_ ? from : from.to(device, at::kFloat, false, true)};
    std::size_t states = 0;
    for (const Placement& member : layout.buckets()[b].members) {
      const ParameterSpec& spec = layout.parameters()[member.parameter];
      states = std::max(states, rule_->states_of(spec.name, spec.shape));
    }
    for (std::size_t i = 0; i < states; ++i) {
      tensors.states.push_back(
          at::full_like(tensors.weights, rule_->initial_state()));
    }
    tier_->put(std::move(tensors));
  }
}

Range RuleOptimizer::range(int bucket) const {
  return options_.partition ? layout_.shard(bucket, group_.rank())
                            : Range{0, layout_.buckets()[bucket].elements};
}

/// Where the new weights go, in the parameters' own type.
at::Tensor RuleOptimizer::target(int bucket) const {
  return options_.partition || parameters_.partitioned(bucket)
      ? parameters_.shard(bucket)
      : parameters_.whole(bucket);
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

/// 16-bit weights that the kernel writes along: straight into the parameters
/// where they are on the same device.
at::Tensor RuleOptimizer::staging_for(int bucket) const {
  const at::Tensor to = target(bucket);
  if (to.scalar_type() == at::kFloat) {
    return {};
  }
  if (options_.on_cpu && to.is_cuda()) {
    return at::empty(
        to.sizes(),
        to.options().device(at::kCPU).pinned_memory(true));
  }
  return to;
}

void RuleOptimizer::emit(
    int bucket,
    const at::Tensor& weights,
    const at::Tensor& copy) {
  if (in_place_) {
    return;
  }
  at::Tensor to = target(bucket);
  const at::Tensor& from = copy.defined() ? copy : weights;
  if (!from.is_same(to) && from.data_ptr() != to.data_ptr()) {
    to.copy_(from, /*non_blocking=*/true);
  }
}

void RuleOptimizer::step(
    const GradientReducer& gradients,
    double gradient_factor) {
  const torch::autograd::AutoGradMode no_grad(false);
  ++steps_;
  const optim::StepValues step{
      .step = steps_,
      .gradient_factor = gradient_factor};
  const std::vector<int> order = trainable_in_forward_order();
  std::vector<distributed::Pending> publishing;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int b = order[i];
    const ShardTensors tensors = tier_->acquire(b);
    if (i + 1 < order.size()) {
      tier_->prefetch(order[i + 1]);
    }
    const BucketShard shard{
        .bucket = b,
        .range = range(b),
        .weights = tensors.weights,
        .gradient = gradients.gradient(b).to(tensors.weights.device()),
        .copy = staging_for(b),
        .states = tensors.states};
    update_->update(shard, options_.groups, step);
    emit(b, shard.weights, shard.copy);
    tier_->give_back(b, true);
    if (options_.partition && !parameters_.partitioned(b)) {
      publishing.push_back(parameters_.publish(b));
    }
  }
  for (distributed::Pending& pending : publishing) {
    pending.wait();
  }
}

void RuleOptimizer::refresh_weights() {
  const torch::autograd::AutoGradMode no_grad(false);
  visit(
      true,
      [&](int bucket, Range, std::string_view name, at::Tensor& values) {
        if (name == "weight" && !in_place_) {
          values.copy_(target(bucket));
        }
      });
}

void RuleOptimizer::publish_weights() {
  const torch::autograd::AutoGradMode no_grad(false);
  for (const int b : trainable_in_forward_order()) {
    emit(b, tier_->acquire(b).weights, {});
    tier_->give_back(b, false);
    if (options_.partition && !parameters_.partitioned(b)) {
      parameters_.publish(b).wait();
    }
  }
}

void RuleOptimizer::visit(bool write, const Visit& visit) {
  const torch::autograd::AutoGradMode no_grad(false);
  for (int b = 0; b < parameters_.buckets(); ++b) {
    if (!layout_.buckets()[b].trainable) {
      break;
    }
    ShardTensors tensors = tier_->acquire(b);
    visit(b, range(b), "weight", tensors.weights);
    for (std::size_t i = 0; i < tensors.states.size(); ++i) {
      visit(b, range(b), rule_->state_names()[i], tensors.states[i]);
    }
    tier_->give_back(b, write);
  }
  tier_->settle();
}

ShardTier::Bytes RuleOptimizer::bytes() const {
  ShardTier::Bytes bytes = tier_->bytes();
  if (in_place_) {
    for (const int b : trainable_in_forward_order()) {
      bytes.memory -= range(b).size() * std::int64_t{sizeof(float)};
    }
  }
  return bytes;
}

} // namespace cairn::zero
