#pragma once

#include <cairn/nn/checkpoint.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>
#include "nn/forward_state.h"
#include "nn/moved_input.h"

#include <optional>
#include <string>
#include <vector>

namespace cairn::nn {

/// A tensor's shape and type, to see that the function gave the same again.
struct OutputShape {
  bool defined = false;
  at::ScalarType dtype = at::ScalarType::Undefined;
  at::DimVector sizes{};

  static OutputShape of(const at::Tensor& tensor);
  std::string text() const;
  bool operator==(const OutputShape&) const = default;
};

/// The place of a checkpoint in autograd's graph. Made before forward, whose
/// state it takes; a node of its own rather than a torch::autograd::Function,
/// which takes no list of tensors and would leave the graph out where no input
/// requires grad, and with it the parameters' gradients.
class CheckpointBackward : public torch::autograd::Node {
 public:
  CheckpointBackward(
      const CheckpointOptions& options,
      const detail::Tensors& inputs,
      detail::TensorFunction again);

  /// Gives a history to outputs of forward, which may be put in other tensors
  /// for it.
  void adopt(detail::Tensors& outputs, const detail::Tensors& inputs);

  std::string name() const override { return "CheckpointBackward"; }
  void release_variables() override;

 protected:
  torch::autograd::variable_list apply(
      torch::autograd::variable_list&& gradients) override;

 private:
  struct Input {
    torch::autograd::SavedVariable saved; // empty when moved
    std::optional<MovedInput> moved;
    bool requires_grad = false;
  };

  void refuse_misuse() const;
  detail::Tensors restore_inputs() const;
  detail::Tensors recompute(const detail::Tensors& inputs) const;

  CheckpointOptions options_;
  ForwardState state_;
  detail::TensorFunction again_;
  std::vector<Input> inputs_;
  std::vector<OutputShape> shapes_;
};

} // namespace cairn::nn
