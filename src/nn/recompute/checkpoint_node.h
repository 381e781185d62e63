#pragma once

#include <cairn/nn/checkpoint.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>
#include "nn/linear/moved_input.h"
#include "nn/recompute/forward_state.h"

#include <optional>
#include <string>
#include <vector>

namespace cairn::nn {

/// A tensor's shape and type, to check that the function gave the same again.
struct OutputShape {
  bool defined = false;
  at::ScalarType dtype = at::ScalarType::Undefined;
  at::DimVector sizes{};

  static OutputShape of(const at::Tensor& tensor);
  std::string text() const;
  bool operator==(const OutputShape&) const = default;
};

/// The place of a checkpoint in autograd's graph. It is made before forward,
/// whose state it takes. It is a node of its own rather than a
/// torch::autograd::Function, which takes no list of tensors and, where no
/// input requires grad, would leave the graph out and with it the parameters'
/// gradients.
class CheckpointBackward : public torch::autograd::Node {
 public:
  CheckpointBackward(
      const CheckpointOptions& options,
      const detail::Tensors& inputs,
      detail::TensorFunction again);

  /// Gives the outputs of forward a history. An output may be replaced by
  /// another tensor for that.
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
