#include "pipeline/batch_run.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace cairn::pipeline {

using torch::autograd::impl::gradient_edge;

BatchRun::BatchRun(
    Parts parts,
    const Schedule& schedule,
    const NextMicroBatch& next,
    Wanted wanted)
    : parts_(parts),
      schedule_(schedule),
      next_(next),
      wanted_(wanted),
      buffers_(static_cast<std::size_t>(
          schedule.buffers.at(static_cast<std::size_t>(parts.module.stage())))),
      loss_sums_(at::zeros(
          {1 + static_cast<std::int64_t>(parts.module.loss_parts().size())},
          at::TensorOptions().dtype(at::kFloat).device(parts.device))) {}

void BatchRun::run() {
  const at::AutoGradMode mode(schedule_.trains);
  for (const Instruction& each :
       schedule_.stages[static_cast<std::size_t>(parts_.module.stage())]) {
    execute(each);
  }
}

at::Tensor BatchRun::losses() const {
  return loss_sums_ / schedule_.micro_batches;
}

void BatchRun::execute(const Instruction& instruction) {
  Buffer& buffer = buffers_[static_cast<std::size_t>(instruction.buffer)];
  switch (instruction.op) {
    case Op::load_micro_batch:
      return load(buffer);
    case Op::receive_activation:
      buffer.activation.emplace(parts_.links.previous->receive());
      return;
    case Op::forward:
      return forward(buffer);
    case Op::send_activation:
      return send_activation(buffer);
    case Op::receive_gradient:
      buffer.gradient.emplace(
          parts_.links.next->receive_expected(buffer.gradients_expected));
      return;
    case Op::backward:
      return backward(buffer);
    case Op::send_gradient:
      parts_.links.previous->send_expected(buffer.input_gradients);
      buffer = {};
      return;
    case Op::receive_tied_gradients:
      tied_gradients_ = parts_.ties.receive_gradients();
      return;
    case Op::send_tied_gradients:
      return parts_.ties.send_gradients();
    case Op::step:
      if (parts_.hooks.step) {
        parts_.hooks.step();
      }
      return;
    case Op::share_tied_weights:
      return parts_.ties.share();
  }
}

void BatchRun::load(Buffer& buffer) {
  std::optional<MicroBatch> loaded = next_();
  if (!loaded) {
    throw DataError(
        {.what = "the data ended in the middle of a batch",
         .where = fmt::format("pipeline stage {}", parts_.module.stage()),
         .values = fmt::format("{} micro batches", schedule_.micro_batches),
         .remedy = "drop the last, incomplete batch, or start over"});
  }
  if (parts_.module.is_first()) {
    for (const at::Tensor& each : loaded->inputs) {
      const at::Tensor here = each.to(parts_.device);
      buffer.inputs.push_back(
          parts_.hooks.prepare ? parts_.hooks.prepare(here) : here);
    }
  }
  if (parts_.module.is_last()) {
    for (const at::Tensor& each : loaded->labels) {
      buffer.labels.push_back(each.to(parts_.device));
    }
  }
}

void BatchRun::forward(Buffer& buffer) {
  if (buffer.activation) {
    buffer.inputs = buffer.activation->wait();
    buffer.activation.reset();
  }
  Tensors losses;
  const Hooks::Pass pass = [&] {
    buffer.outputs = parts_.module.forward(buffer.inputs);
    if (parts_.module.is_last() && wanted_ == Wanted::losses) {
      losses = parts_.module.losses(buffer.outputs, buffer.labels);
    }
  };
  parts_.hooks.forward ? parts_.hooks.forward(pass) : pass();
  if (schedule_.trains) {
    most_live_ = std::max(most_live_, ++live_);
  }
  if (!parts_.module.is_last()) {
    return;
  }
  if (wanted_ == Wanted::losses) {
    keep(losses);
    buffer.loss = std::move(losses.front());
  } else {
    outputs_.push_back(std::move(buffer.outputs));
  }
  buffer.outputs.clear();
  buffer.labels.clear();
  if (!schedule_.trains) {
    buffer = {};
  }
}

void BatchRun::keep(const Tensors& losses) {
  const at::Tensor& loss = losses.front();
  const bool trainable = !schedule_.trains || loss.requires_grad();
  if (!loss.defined() || loss.numel() != 1 || !trainable) {
    throw ConfigError(
        {.what = "a pipeline's loss has one element and, in training, a "
                 "gradient",
         .values = !loss.defined() ? "undefined"
                                   : fmt::format(
                                         "{} elements, requires_grad {}",
                                         loss.numel(),
                                         loss.requires_grad()),
         .remedy = "reduce it with mean()"});
  }
  for (std::size_t i = 0; i < losses.size(); ++i) {
    loss_sums_.select(0, static_cast<std::int64_t>(i))
        .add_(losses[i].detach().reshape({}));
  }
}

void BatchRun::send_activation(Buffer& buffer) {
  parts_.links.next->send(buffer.outputs);
  if (!schedule_.trains) {
    buffer = {};
    return;
  }
  for (const at::Tensor& each : buffer.outputs) {
    if (each.requires_grad()) {
      buffer.roots.push_back(gradient_edge(each));
      buffer.gradients_expected.push_back(
          {each.scalar_type(), false, each.sizes().vec()});
    }
  }
  buffer.outputs.clear();
}

void BatchRun::backward(Buffer& buffer) {
  std::vector<torch::autograd::Edge> roots = std::move(buffer.roots);
  Tensors gradients;
  if (parts_.module.is_last()) {
    const at::Tensor loss = std::move(buffer.loss);
    const at::Tensor scaled = parts_.hooks.scale
        ? parts_.hooks.scale(loss)
        : loss / schedule_.micro_batches;
    roots.push_back(gradient_edge(scaled));
    gradients.push_back(at::ones_like(scaled));
  } else {
    gradients = buffer.gradient->wait();
    buffer.gradient.reset();
  }
  const bool last = ++backwards_ == schedule_.micro_batches;
  if (last) {
    // As if the copies were part of this graph.
    for (const auto& [parameter, gradient] : tied_gradients_) {
      roots.push_back(gradient_edge(parameter));
      gradients.push_back(gradient);
    }
    tied_gradients_.clear();
  }
  const Hooks::Pass pass = [&] {
    if (!roots.empty()) {
      torch::autograd::Engine::get_default_engine().execute(
          std::exchange(roots, {}),
          gradients,
          /*keep_graph=*/false,
          /*create_graph=*/false,
          /*accumulate_grad=*/true);
    }
  };
  parts_.hooks.backward ? parts_.hooks.backward(pass, last) : pass();
  parts_.ties.collect();
  --live_;
  for (const at::Tensor& each : std::exchange(buffer.inputs, {})) {
    if (each.requires_grad()) {
      const at::Tensor& gradient = each.grad();
      buffer.input_gradients.push_back(
          gradient.defined() ? gradient : at::zeros_like(each.detach()));
    }
  }
  if (parts_.module.is_first()) {
    buffer = {};
  }
}

} // namespace cairn::pipeline
