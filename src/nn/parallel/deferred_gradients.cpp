#include "nn/internal/deferred_gradients.h"

#include <ATen/core/grad_mode.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace cairn::nn {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;
using torch::autograd::impl::gradient_edge;

// Per thread: set and read where forward runs.
std::shared_ptr<DeferredGradients>& current_deferral() {
  thread_local std::shared_ptr<DeferredGradients> current;
  return current;
}

bool is_cast_of_parameter(const Node& node) {
  return node.name() == "ToCopyBackward0" && node.num_outputs() == 1 &&
      dynamic_cast<AccumulateGrad*>(node.next_edge(0).function.get()) !=
      nullptr;
}

} // namespace

bool DeferredGradients::takes(const at::Tensor& weight) {
  return weight.requires_grad() &&
      (weight.is_leaf() || is_cast_of_parameter(*weight.grad_fn()));
}

void DeferredGradients::add(
    const std::vector<at::Tensor>& weights,
    Compute compute) {
  Item item{.compute = std::move(compute)};
  for (const at::Tensor& weight : weights) {
    item.weights.push_back(gradient_edge(weight));
  }
  const std::lock_guard lock(mutex_);
  items_.push_back(std::move(item));
}

bool DeferredGradients::empty() const {
  const std::lock_guard lock(mutex_);
  return items_.empty();
}

void DeferredGradients::run() {
  std::vector<Item> items;
  {
    const std::lock_guard lock(mutex_);
    items = std::exchange(items_, {});
  }
  for (Item& each : items) {
    Item item = std::exchange(each, {});
    std::vector<at::Tensor> gradients;
    {
      const at::NoGradGuard no_grad;
      gradients = item.compute();
    }
    item.compute = nullptr; // frees what it kept
    if (gradients.size() != item.weights.size()) {
      throw InternalError(
          {.what = "gradients that were put off are not one for each weight",
           .values = fmt::format(
               "{} and {}",
               gradients.size(),
               item.weights.size())});
    }
    torch::autograd::Engine::get_default_engine().execute(
        item.weights,
        gradients,
        /*keep_graph=*/false,
        /*create_graph=*/false,
        /*accumulate_grad=*/true);
  }
}

DeferWeightGradients::DeferWeightGradients(
    std::shared_ptr<DeferredGradients> later)
    : before_(std::exchange(current_deferral(), std::move(later))) {}

DeferWeightGradients::~DeferWeightGradients() {
  current_deferral() = std::move(before_);
}

const std::shared_ptr<DeferredGradients>& DeferWeightGradients::current() {
  return current_deferral();
}

} // namespace cairn::nn
