#include "gpt2/fp16_optimizer.h"

#include <ATen/Functions.h>
#include <cairn/nn/parameter_slices.h>

#include <cmath>
#include <set>
#include <string>
#include <variant>

namespace gpt2 {

namespace optim = cairn::optim;
using cairn::distributed::Axis;

Fp16Optimizer::Fp16Optimizer(
    const torch::nn::Module& model,
    std::shared_ptr<torch::optim::AdamW> optimizer,
    const cairn::config::Config& args,
    const cairn::distributed::ProcessMesh& mpu)
    : optimizer_(std::move(optimizer)),
      model_parallel_(mpu.model_parallel()),
      scaler_(optim::LossScaler::from(args.deepspeed.fp16, 0)),
      batch_size_(args.deepspeed.batch->train) {
  std::set<std::string> cut;
  for (const auto& slice : cairn::nn::parameter_slices(model)) {
    cut.insert(slice.name);
  }
  std::set<const void*> counted;
  for (const auto& named : model.named_parameters()) {
    if (cut.contains(named.key()) || mpu.coordinate(Axis::tensor) == 0) {
      counted.insert(named.value().unsafeGetTensorImpl());
    }
  }
  for (auto& group : optimizer_->param_groups()) {
    for (at::Tensor& weight : group.params()) {
      const bool counts = counted.contains(weight.unsafeGetTensorImpl());
      weights_.push_back({weight, weight, counts});
      if (args.deepspeed.fp16.enabled) {
        weights_.back().master = weight.detach().clone().requires_grad_();
        weight.set_data(weight.detach().to(at::kHalf));
        weight = weights_.back().master;
      }
    }
  }
}

void Fp16Optimizer::zero_grad() {
  for (Weight& weight : weights_) {
    weight.model.mutable_grad().reset();
  }
}

void Fp16Optimizer::backward(const at::Tensor& loss) {
  (loss.to(at::kFloat) * scaler_.scale()).backward();
}

void Fp16Optimizer::update_master_grads() {
  const at::NoGradGuard no_grad;
  at::Tensor squares =
      at::zeros({}, weights_.front().master.options().requires_grad(false));
  for (Weight& weight : weights_) {
    weight.master.mutable_grad() =
        weight.model.grad().to(at::kFloat) / scaler_.scale();
    if (weight.counts) {
      squares += weight.master.grad().square().sum();
    }
  }
  model_parallel_.all_reduce(squares).wait();
  norm_ = std::sqrt(squares.item<double>());
}

void Fp16Optimizer::clip_master_grads(double most) {
  if (most > 0 && norm_ > most) {
    for (Weight& weight : weights_) {
      weight.master.mutable_grad().mul_(most / (norm_ + 1e-6));
    }
  }
}

bool Fp16Optimizer::step() {
  const bool overflow = !std::isfinite(norm_);
  scaler_.update(overflow);
  if (overflow) {
    return false;
  }
  optimizer_->step();
  ++updates_;
  const at::NoGradGuard no_grad;
  for (Weight& weight : weights_) {
    if (!weight.model.is_same(weight.master)) {
      weight.model.copy_(weight.master);
    }
  }
  return true;
}

void Fp16Optimizer::set_learning_rate(const optim::Schedule& schedule) {
  const auto values = schedule.at(updates_ * batch_size_);
  for (std::size_t i = 0; i < optimizer_->param_groups().size(); ++i) {
    auto& options = static_cast<torch::optim::AdamWOptions&>(
        optimizer_->param_groups()[i].options());
    options.lr(values[i].lr.value_or(options.lr()));
    options.weight_decay(
        values[i].weight_decay.value_or(options.weight_decay()));
  }
}

void Fp16Optimizer::save(torch::serialize::OutputArchive& archive) const {
  torch::serialize::OutputArchive states;
  optimizer_->save(states);
  archive.write("optimizer", states);
  archive.write("updates", c10::IValue(updates_));
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    archive.write("master" + std::to_string(i), weights_[i].master);
  }
  if (const auto* scale = std::get_if<optim::FusedScale>(&scaler_.state())) {
    archive.write("scale", c10::IValue(scale->scale));
    archive.write("scale_iteration", c10::IValue(scale->iteration));
    archive.write("scale_overflow", c10::IValue(scale->last_overflow));
  }
}

void Fp16Optimizer::load(torch::serialize::InputArchive& archive) {
  const at::NoGradGuard no_grad;
  torch::serialize::InputArchive states;
  archive.read("optimizer", states);
  optimizer_->load(states);
  c10::IValue value;
  archive.read("updates", value);
  updates_ = value.toInt();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    at::Tensor master;
    archive.read("master" + std::to_string(i), master);
    weights_[i].master.copy_(master);
    weights_[i].model.copy_(master);
  }
  if (const auto* now = std::get_if<optim::FusedScale>(&scaler_.state())) {
    optim::FusedScale stored = *now;
    archive.read("scale", value);
    stored.scale = value.toDouble();
    archive.read("scale_iteration", value);
    stored.iteration = value.toInt();
    archive.read("scale_overflow", value);
    stored.last_overflow = value.toInt();
    scaler_ = optim::LossScaler(stored);
  }
}

} // namespace gpt2
