#include "pipeline/tied_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <ranges>
#include <utility>

namespace cairn::pipeline {

TiedWeights::TiedWeights(
    const PipelineModule& module,
    const MakeChannel& channel_to) {
  for (const PipelineModule::Tie& tie : module.ties()) {
    // Not used on this stage, or nothing to share.
    if (tie.parameters.empty()) {
      continue;
    }
    Shared& shared = shared_.emplace_back();
    shared.owned = tie.owner() == module.stage();
    for (const int stage : tie.stages) {
      if (shared.owned ? stage != tie.owner() : stage == tie.owner()) {
        shared.peers.push_back(channel_to(stage));
      }
    }
    for (const at::Tensor& each : tie.parameters) {
      shared.parameters.push_back({each, {}});
    }
  }
}

void TiedWeights::begin_batch() {
  for (Shared& shared : shared_) {
    for (Channel& peer : shared.peers) {
      peer.begin_batch();
    }
  }
}

void TiedWeights::share() {
  const at::NoGradGuard no_grad;
  for (Shared& shared : shared_) {
    if (!shared.owned) {
      const Tensors values = shared.peers.front().receive().wait();
      for (std::size_t i = 0; i < values.size(); ++i) {
        shared.parameters[i].parameter.set_data(values[i]);
      }
      continue;
    }
    Tensors values;
    for (const Copy& each : shared.parameters) {
      // A copy, because the parameter may change before it is sent, or live as
      // slices until an operator touches it.
      values.push_back(each.parameter.detach().clone());
    }
    for (Channel& copy : shared.peers) {
      copy.send(values);
    }
  }
}

void TiedWeights::collect() {
  const at::NoGradGuard no_grad;
  for (Shared& shared : shared_) {
    for (Copy& each : shared.parameters) {
      at::Tensor& gradient = each.parameter.mutable_grad();
      if (shared.owned || !gradient.defined()) {
        continue;
      }
      if (each.sum.defined()) {
        each.sum.add_(gradient);
      } else {
        each.sum = gradient.to(at::kFloat);
      }
      gradient.reset();
    }
  }
}

// A stage sends to the nearest owner first, which needs the gradients first: an
// owner further down cannot go on before that.
void TiedWeights::send_gradients() {
  for (Shared& shared : std::views::reverse(shared_)) {
    if (shared.owned) {
      continue;
    }
    Tensors gradients;
    for (Copy& each : shared.parameters) {
      gradients.push_back(
          each.sum.defined()
              ? std::exchange(each.sum, {}).to(each.parameter.scalar_type())
              : at::zeros_like(each.parameter.detach()));
    }
    shared.peers.front().send(gradients);
  }
}

std::vector<std::pair<at::Tensor, at::Tensor>> TiedWeights::
    receive_gradients() {
  const at::NoGradGuard no_grad;
  std::vector<std::pair<at::Tensor, at::Tensor>> result;
  for (Shared& shared : std::views::reverse(shared_)) {
    if (!shared.owned) {
      continue;
    }
    Tensors sums;
    for (Channel& copy : shared.peers) {
      const Tensors gradients = copy.receive().wait();
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (i == sums.size()) {
          sums.push_back(gradients[i]);
        } else {
          sums[i].add_(gradients[i]);
        }
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (shared.parameters.at(i).parameter.requires_grad()) {
        result.emplace_back(shared.parameters[i].parameter, sums[i]);
      }
    }
  }
  return result;
}

} // namespace cairn::pipeline
