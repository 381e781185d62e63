#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace cairn::nn {

/// Gradients of weights that backward has put off, to be computed later. The
/// gradients of the inputs are then ready sooner.
///
///   auto later = std::make_shared<DeferredGradients>();
///   {
///     const DeferWeightGradients scope(later);
///     loss = net.forward(x);
///   }
///   loss.backward();  // gradients of x, norms, biases…
///   later->run();     // of the weights of this library's linear layers
///
/// Only the linear layers of this library put their gradients off; everything
/// else in a model gets its gradients in backward, as always.
class DeferredGradients {
 public:
  using Compute = std::function<std::vector<at::Tensor>()>;

  /// Puts off the gradients of `weights`, which `compute` will return, one for
  /// each. Called by autograd functions in their backward.
  void add(const std::vector<at::Tensor>& weights, Compute compute);

  /// Computes the deferred gradients so far, in their order, and adds each to
  /// that of its weight, with any hooks. Frees the kept tensors on the way.
  void run();

  bool empty() const;

  /// True when the gradient of this weight can be put off: the weight is a
  /// parameter, or a parameter cast to the type of autocast. For results of
  /// other operators on parameters, the graph may be gone when backward is
  /// over.
  static bool takes(const at::Tensor& weight);

 private:
  struct Item {
    /// Edges to the weights, not their values.
    std::vector<torch::autograd::Edge> weights;
    Compute compute;
  };
  mutable std::mutex mutex_; ///< backward may run on threads of its own
  std::vector<Item> items_;
};

/// Makes forward passes of this thread put off the gradients of their weights,
/// for as long as the scope lasts. Activation checkpoints repeat the choice of
/// their first forward.
class [[nodiscard]] DeferWeightGradients {
 public:
  /// `later` may be null: nothing is put off.
  explicit DeferWeightGradients(std::shared_ptr<DeferredGradients> later);
  ~DeferWeightGradients();
  DeferWeightGradients(const DeferWeightGradients&) = delete;
  DeferWeightGradients& operator=(const DeferWeightGradients&) = delete;

  /// The gradients of the innermost scope; null without one.
  static const std::shared_ptr<DeferredGradients>& current();

 private:
  std::shared_ptr<DeferredGradients> before_;
};

} // namespace cairn::nn
