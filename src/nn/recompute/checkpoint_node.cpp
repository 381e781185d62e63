#include "nn/recompute/checkpoint_node.h"

#include <ATen/core/grad_mode.h>
#include <cairn/base/error.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>
#include "nn/recompute/boundary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

namespace cairn::nn {

using detail::Tensors;

namespace {

bool shares_memory(const at::Tensor& tensor, const Tensors& others) {
  return std::any_of(
      others.begin(),
      others.end(),
      [&](const at::Tensor& other) {
        return other.defined() && !other.is_same(tensor) &&
            other.has_storage() && tensor.has_storage() &&
            other.is_alias_of(tensor);
      });
}

// True when an output has to get a history. Forward computes without grad, so a
// tensor with a history was there before: it is returned as it is.
bool needs_history(const at::Tensor& output, const Tensors& inputs) {
  if (!output.defined() ||
      !torch::autograd::isDifferentiableType(output.scalar_type())) {
    return false;
  }
  const bool is_input =
      std::any_of(inputs.begin(), inputs.end(), [&](const at::Tensor& input) {
        return input.is_same(output);
      });
  if (is_input || !output.requires_grad()) {
    return !is_input;
  }
  return output.is_view() &&
      torch::autograd::impl::get_view_autograd_meta(output)
          ->get_creation_meta() != torch::autograd::CreationMeta::DEFAULT;
}

} // namespace

OutputShape OutputShape::of(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return {};
  }
  return {true, tensor.scalar_type(), at::DimVector(tensor.sizes())};
}

std::string OutputShape::text() const {
  return defined
      ? fmt::format("{} [{}]", c10::toString(dtype), fmt::join(sizes, ", "))
      : "undefined";
}

CheckpointBackward::CheckpointBackward(
    const CheckpointOptions& options,
    const Tensors& inputs,
    detail::TensorFunction again)
    : options_(options), again_(std::move(again)) {
  inputs_.reserve(inputs.size());
  for (const at::Tensor& input : inputs) {
    const bool requires_grad = input.defined() && input.requires_grad();
    add_next_edge(
        requires_grad ? torch::autograd::impl::gradient_edge(input)
                      : torch::autograd::Edge());
    Input& kept = inputs_.emplace_back();
    kept.requires_grad = requires_grad;
    if (input.defined() && MovedInput::suits(input, options)) {
      kept.moved.emplace(input, options, inputs_.size() - 1);
    } else {
      kept.saved = torch::autograd::SavedVariable(input, /*is_output=*/false);
    }
  }
}

void CheckpointBackward::adopt(Tensors& outputs, const Tensors& inputs) {
  const Tensors given = outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    at::Tensor& output = outputs[i];
    shapes_.push_back(OutputShape::of(output));
    const auto first =
        std::find_if(given.begin(), given.end(), [&](const at::Tensor& other) {
          return other.is_same(given[i]);
        });
    const auto earlier = static_cast<std::size_t>(first - given.begin());
    if (earlier < i || !needs_history(output, inputs)) {
      output = outputs[earlier];
      add_input_metadata(undefined_input());
      continue;
    }
    const bool of_input = shares_memory(output, inputs);
    if (!of_input && !output.requires_grad() && !shares_memory(output, given)) {
      // Nobody else has this memory. detach() makes it a plain tensor; a view
      // made without grad could not be written into.
      output = output.detach();
    } else if (output.is_view()) {
      // Writing into this view would change tensors that autograd takes for
      // independent. The meta makes that an error.
      torch::autograd::impl::get_view_autograd_meta(output)->set_creation_meta(
          torch::autograd::CreationMeta::MULTI_OUTPUT_NODE);
    } else if (of_input) {
      output = output.clone();
    }
    torch::autograd::set_history(output, getptr());
  }
}

void CheckpointBackward::release_variables() {
  const std::lock_guard lock(mutex_);
  inputs_.clear();
  again_ = nullptr;
}

void CheckpointBackward::refuse_misuse() const {
  if (!again_) {
    throw Error(
        {.what = "backward a second time through an activation checkpoint, "
                 "which was released after the first",
         .remedy = "pass retain_graph to the first backward"});
  }
  if (at::GradMode::is_enabled()) {
    throw Error(
        {.what = "an activation checkpoint has no second derivatives "
                 "(backward with create_graph)",
         .remedy = "call this part without checkpoint()"});
  }
  // The parameters' gradients appear in an inner backward, which does not know
  // the tensors that were asked for.
  if (!torch::autograd::Engine::get_default_engine().is_checkpoint_valid()) {
    throw Error(
        {.what = "an activation checkpoint needs a plain backward(), without "
                 "a list of inputs, and cannot be used with "
                 "torch::autograd::grad()",
         .remedy = "call backward() and read .grad()"});
  }
}

Tensors CheckpointBackward::restore_inputs() const {
  Tensors inputs;
  inputs.reserve(inputs_.size());
  for (const Input& each : inputs_) {
    at::Tensor input = each.moved ? each.moved->restore() : each.saved.unpack();
    if (input.defined()) {
      input = input.detach();
      input.set_requires_grad(each.requires_grad);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

Tensors CheckpointBackward::recompute(const Tensors& inputs) const {
  Tensors outputs;
  {
    const ForwardStateScope as_in_forward(state_);
    const at::AutoGradMode with_grad(true);
    outputs = again_(inputs);
  }
  std::vector<OutputShape> shapes;
  shapes.reserve(outputs.size());
  std::transform(
      outputs.begin(),
      outputs.end(),
      std::back_inserter(shapes),
      OutputShape::of);
  if (shapes != shapes_) {
    const auto text = [](const std::vector<OutputShape>& all) {
      std::vector<std::string> texts;
      for (const OutputShape& each : all) {
        texts.push_back(each.text());
      }
      return fmt::format("{}", fmt::join(texts, ", "));
    };
    throw Error(
        {.what = "a checkpointed function gave other outputs in backward than "
                 "in forward",
         .values = fmt::format("{}; then {}", text(shapes), text(shapes_)),
         .remedy = "it must do the same both times: let it depend on nothing "
                   "that changes in between"});
  }
  return outputs;
}

torch::autograd::variable_list CheckpointBackward::apply(
    torch::autograd::variable_list&& gradients) {
  refuse_misuse();
  const Boundary boundary(options_, "backward");
  const Tensors inputs = restore_inputs();
  Tensors roots;
  Tensors root_gradients;
  {
    const Tensors outputs = recompute(inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (gradients[i].defined() && outputs[i].requires_grad()) {
        roots.push_back(outputs[i]);
        root_gradients.push_back(gradients[i]);
      }
    }
  }
  gradients.clear();
  if (!roots.empty()) {
    torch::autograd::backward(roots, root_gradients);
  }
  torch::autograd::variable_list results;
  results.reserve(inputs.size());
  for (const at::Tensor& input : inputs) {
    results.push_back(input.defined() ? input.grad() : at::Tensor());
  }
  boundary.end();
  return results;
}

} // namespace cairn::nn
