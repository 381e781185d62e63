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
          at::TensorOptions().dtype(at::kFloat).device(parts.device))),
      passes_(
          schedule.micro_batches * schedule.chunks *
          (schedule.splits_backward ? 2 : 1)) {}

void BatchRun::run() {
  const at::AutoGradMode mode(schedule_.trains);
  for (Links& links : parts_.links) {
    for (auto* channel : {&links.previous, &links.next}) {
      if (*channel) {
        (*channel)->begin_batch();
      }
    }
  }
  parts_.ties.begin_batch();
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
  const int chunk = instruction.chunk;
  Links& links = parts_.links[static_cast<std::size_t>(chunk)];
  switch (instruction.op) {
    case Op::load_micro_batch:
      return load(buffer, chunk);
    case Op::receive_activation:
      buffer.activation.emplace(links.previous->receive());
      return;
    case Op::forward:
      return forward(buffer, chunk);
    case Op::send_activation:
      return send_activation(buffer, *links.next);
    case Op::receive_gradient:
      buffer.gradient.emplace(
          links.next->receive_gradients(buffer.gradients_expected));
      return;
    case Op::backward:
      return backward(buffer, chunk);
    case Op::send_gradient:
      return send_gradient(buffer, *links.previous);
    case Op::weight_gradients:
      return weight_gradients(buffer);
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

void BatchRun::load(Buffer& buffer, int chunk) {
  std::optional<MicroBatch> loaded = next_();
  if (!loaded) {
    throw DataError(
        {.what = "the data ended in the middle of a batch",
         .where = fmt::format("pipeline stage {}", parts_.module.stage()),
         .values = fmt::format("{} micro batches", schedule_.micro_batches),
         .remedy = "drop the last, incomplete batch, or start over"});
  }
  if (parts_.module.is_first(chunk)) {
    for (const at::Tensor& each : loaded->inputs) {
      const at::Tensor here = each.to(parts_.device);
      buffer.inputs.push_back(
          parts_.hooks.prepare ? parts_.hooks.prepare(here) : here);
    }
  }
  if (parts_.module.is_last(chunk)) {
    for (const at::Tensor& each : loaded->labels) {
      buffer.labels.push_back(each.to(parts_.device));
    }
  }
}

void BatchRun::forward(Buffer& buffer, int chunk) {
  if (buffer.activation) {
    buffer.inputs = buffer.activation->wait();
    buffer.activation.reset();
  }
  const bool is_last = parts_.module.is_last(chunk);
  if (schedule_.splits_backward) {
    buffer.deferred = std::make_shared<nn::DeferredGradients>();
  }
  Tensors losses;
  const Hooks::Pass pass = [&] {
    const nn::DeferWeightGradients later(buffer.deferred);
    buffer.outputs = parts_.module.forward(buffer.inputs, chunk);
    if (is_last && wanted_ == Wanted::losses) {
      losses = parts_.module.losses(buffer.outputs, buffer.labels);
    }
  };
  parts_.hooks.forward ? parts_.hooks.forward(pass) : pass();
  if (schedule_.trains) {
    most_live_ = std::max(most_live_, ++live_);
  }
  if (!is_last) {
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
    throw UsageError(
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

void BatchRun::send_activation(Buffer& buffer, Channel& next) {
  next.send(buffer.outputs);
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

void BatchRun::backward(Buffer& buffer, int chunk) {
  Roots roots{.edges = std::move(buffer.roots)};
  if (parts_.module.is_last(chunk)) {
    const at::Tensor loss = std::move(buffer.loss);
    const at::Tensor scaled = parts_.hooks.scale
        ? parts_.hooks.scale(loss)
        : loss / schedule_.micro_batches;
    roots.edges.push_back(gradient_edge(scaled));
    roots.gradients.push_back(at::ones_like(scaled));
  } else {
    roots.gradients = buffer.gradient->wait();
    buffer.gradient.reset();
  }
  run_backward(std::move(roots), {});
  for (const at::Tensor& each : std::exchange(buffer.inputs, {})) {
    if (each.requires_grad()) {
      const at::Tensor& gradient = each.grad();
      buffer.input_gradients.push_back(
          gradient.defined() ? gradient : at::zeros_like(each.detach()));
    }
  }
  if (!schedule_.splits_backward) {
    --live_;
    if (parts_.module.is_first(chunk)) {
      buffer = {};
    }
  }
}

void BatchRun::send_gradient(Buffer& buffer, Channel& previous) {
  previous.send_gradients(buffer.input_gradients);
  if (schedule_.splits_backward) {
    buffer.input_gradients.clear();
  } else {
    buffer = {};
  }
}

void BatchRun::weight_gradients(Buffer& buffer) {
  run_backward({}, [&] { buffer.deferred->run(); });
  --live_;
  buffer = {};
}

void BatchRun::run_backward(Roots roots, const Hooks::Pass& before) {
  const bool last = ++passes_done_ == passes_;
  if (last) {
    // The copies' gradients count as if the copies were part of this graph.
    for (const auto& [parameter, gradient] : tied_gradients_) {
      roots.edges.push_back(gradient_edge(parameter));
      roots.gradients.push_back(gradient);
    }
    tied_gradients_.clear();
  }
  const Hooks::Pass pass = [&] {
    if (before) {
      before();
    }
    if (!roots.edges.empty()) {
      torch::autograd::Engine::get_default_engine().execute(
          std::exchange(roots.edges, {}),
          roots.gradients,
          /*keep_graph=*/false,
          /*create_graph=*/false,
          /*accumulate_grad=*/true);
    }
  };
  parts_.hooks.backward ? parts_.hooks.backward(pass, last) : pass();
  parts_.ties.collect();
}

} // namespace cairn::pipeline
