#include "zero/internal/client_optimizer.h"

#include "zero/optimizer/optimizer_state.h"
#include "zero/reduce/take_changed.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <optional>
#include <utility>

namespace cairn::zero {

namespace {

bool is_by_element(const c10::IValue& value, const at::Tensor& weights) {
  return value.isTensor() && value.toTensor().numel() == weights.numel();
}

bool is_number(const c10::IValue& value) {
  return value.isInt() || value.isDouble() || value.isBool();
}

} // namespace

ClientOptimizer::ClientOptimizer(
    const Layout& layout,
    FlatParameters& parameters,
    std::shared_ptr<torch::optim::Optimizer> optimizer,
    RankGroups owners,
    Options options)
    : layout_(layout),
      parameters_(parameters),
      optimizer_(std::move(optimizer)),
      access_(layout, parameters, std::move(owners), options.partition) {
  const torch::autograd::AutoGradMode no_grad(false);
  auto& param_groups = optimizer_->param_groups();
  for (auto& theirs : param_groups) {
    theirs.params().clear();
    groups_.push_back({.lr = theirs.options().get_lr()});
  }
  for (int b = 0; b < parameters.buckets() && layout.buckets()[b].trainable;
       ++b) {
    const at::Tensor from = access_.open(b, false);
    Shard shard{
        .in_place = from.scalar_type() == at::kFloat &&
            (from.is_cpu() || !options.on_cpu) && access_.keeps_memory(b)};
    shard.weights = shard.in_place
        ? from
        : from.to(
              options.on_cpu ? at::Device(at::kCPU) : from.device(),
              at::kFloat,
              /*non_blocking=*/false,
              /*copy=*/true);
    access_.close(b, false);
    const Range mine = access_.range(b);
    for (const Segment& segment : layout.segments(b, mine)) {
      const Range part{
          segment.in_bucket.begin - mine.begin,
          segment.in_bucket.end - mine.begin};
      at::Tensor weights =
          shard.weights.narrow(0, part.begin, part.size()).detach();
      weights.requires_grad_(true);
      param_groups[segment.group].params().push_back(weights);
      shard.stretches.push_back(
          {segment.group, part, segment.in_bucket, std::move(weights)});
    }
    shards_.push_back(std::move(shard));
  }
}

void ClientOptimizer::step(
    const GradientReducer& gradients,
    const GradientFactor& factor) {
  ++steps_;
  {
    const torch::autograd::AutoGradMode no_grad(false);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      optimizer_->param_groups()[g].options().set_lr(groups_[g].lr);
    }
    for (int b = 0; b < static_cast<int>(shards_.size()); ++b) {
      at::Tensor gradient =
          gradients.gradient(b).to(shards_[b].weights.device(), at::kFloat);
      gradient = factor.on_gpu.defined()
          ? gradient * factor.on_gpu.to(gradient.device())
          : gradient * factor.number;
      for (Stretch& stretch : shards_[b].stretches) {
        stretch.weights.mutable_grad() =
            gradient.narrow(0, stretch.in_shard.begin, stretch.in_shard.size());
      }
    }
  }
  optimizer_->step();
  for (Shard& shard : shards_) {
    for (Stretch& stretch : shard.stretches) {
      stretch.weights.mutable_grad().reset();
    }
  }
  publish_weights();
}

void ClientOptimizer::refresh_weights(int bucket) {
  if (layout_.buckets()[bucket].trainable && !shards_[bucket].in_place) {
    const torch::autograd::AutoGradMode no_grad(false);
    take_changed(shards_[bucket].weights, access_.open(bucket, false));
    access_.close(bucket, false);
  }
}

void ClientOptimizer::publish_weights() {
  const torch::autograd::AutoGradMode no_grad(false);
  std::vector<distributed::Pending> publishing;
  for (int b = static_cast<int>(shards_.size()) - 1; b >= 0; --b) {
    if (!shards_[b].in_place) {
      access_.open(b, /*blank=*/true).copy_(shards_[b].weights);
      access_.close(b, true);
    }
    if (access_.is_published(b)) {
      publishing.push_back(parameters_.publish(b));
    }
  }
  for (distributed::Pending& pending : publishing) {
    pending.wait();
  }
}

torch::optim::OptimizerParamState* ClientOptimizer::state_of(
    const Stretch& stretch) const {
  const auto& states = optimizer_->state();
  const auto found = states.find(stretch.weights.unsafeGetTensorImpl());
  return found == states.end() ? nullptr : found->second.get();
}

/// Makes the optimizer's states by a step with zero gradients, because only the
/// optimizer knows the form of its states. The weights are useless after it.
void ClientOptimizer::make_states() {
  optimizer_->state().clear();
  if (steps_ == 0) {
    return;
  }
  for (Shard& shard : shards_) {
    for (Stretch& stretch : shard.stretches) {
      stretch.weights.mutable_grad() = at::zeros_like(stretch.weights);
    }
  }
  optimizer_->step();
  optimizer_->zero_grad();
}

void ClientOptimizer::visit_states(
    int bucket,
    Stretch& stretch,
    bool write,
    const Visit& visit) const {
  auto* const state = state_of(stretch);
  if (state == nullptr) {
    return;
  }
  StateValues values = values_of(*state).value_or(StateValues());
  for (auto& [name, value] : values) {
    if (is_by_element(value, stretch.weights)) {
      at::Tensor flat = value.toTensor().view({-1});
      visit(bucket, stretch.in_bucket, name, flat);
    }
  }
  if (write && !values.empty()) {
    set_values(*state, values);
  }
}

void ClientOptimizer::visit(bool write, const Visit& visit) {
  if (write) {
    make_states();
  }
  const torch::autograd::AutoGradMode no_grad(false);
  for (int b = 0; b < static_cast<int>(shards_.size()); ++b) {
    visit(b, access_.range(b), "weight", shards_[b].weights);
    for (Stretch& stretch : shards_[b].stretches) {
      visit_states(b, stretch, write, visit);
    }
  }
}

std::vector<ShardedOptimizer::Held> ClientOptimizer::held() {
  std::vector<Held> all;
  visit(
      false,
      [&](int bucket, Range range, std::string_view name, at::Tensor& values) {
        all.push_back({bucket, range, std::string(name), values.scalar_type()});
      });
  return all;
}

void ClientOptimizer::visit_numbers(bool write, const VisitNumber& visit) {
  for (Shard& shard : shards_) {
    for (Stretch& stretch : shard.stretches) {
      auto* const state = state_of(stretch);
      if (state == nullptr) {
        continue;
      }
      StateValues values = values_of(*state).value_or(StateValues());
      for (auto& [name, value] : values) {
        if (is_number(value)) {
          double number = value.toScalar().toDouble();
          visit(stretch.group, name, number);
          value = value.isInt() ? c10::IValue(static_cast<std::int64_t>(number))
              : value.isBool()  ? c10::IValue(number != 0)
                                : c10::IValue(number);
        }
      }
      if (write && !values.empty()) {
        set_values(*state, values);
      }
    }
  }
}

std::string ClientOptimizer::not_visited() const {
  for (const Shard& shard : shards_) {
    for (const Stretch& stretch : shard.stretches) {
      auto* const state = state_of(stretch);
      if (state == nullptr) {
        continue;
      }
      const std::optional<StateValues> values = values_of(*state);
      if (!values) {
        return "they have no serialize()";
      }
      for (const auto& [name, value] : *values) {
        if (!is_number(value) && !is_by_element(value, stretch.weights)) {
          return name + " has neither one number nor one for each weight";
        }
      }
      break; // the other stretches are alike
    }
  }
  return {};
}

ShardTier::Bytes ClientOptimizer::bytes() const {
  // The states belong to the optimizer; torch::optim does not tell their size,
  // so they are not counted.
  ShardTier::Bytes result;
  for (const Shard& shard : shards_) {
    result.memory +=
        shard.in_place ? 0 : static_cast<std::int64_t>(shard.weights.nbytes());
  }
  return result;
}

} // namespace cairn::zero
