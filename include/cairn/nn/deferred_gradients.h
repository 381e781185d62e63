#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace cairn::nn {

/// Gradients of weights that backward has put off, to be computed later: what
/// the gradients of the inputs need is then over sooner.
///
///   auto later = std::make_shared<DeferredGradients>();
///   {
///     const DeferWeightGradients scope(later);
///     loss = net.forward(x);
///   }
///   loss.backward();  // gradients of x, norms, biases…
///   later->run();     // of the weights of this library's linear layers
///
/// The linear layers of this library put theirs off; whatever else a model has
/// gets its gradients in backward, as always.
class DeferredGradients {
 public:
  using Compute = std::function<std::vector<at::Tensor>()>;

  /// `weights` get what `compute` returns, one for each. For functions of
  /// autograd, in their backward.
  void add(const std::vector<at::Tensor>& weights, Compute compute);

  /// Computes what has been put off so far, in that order, and adds each to the
  /// gradients of its weight, with whatever hooks there are. Forgets what it
  /// keeps for that as it goes.
  void run();

  bool empty() const;

  /// Whether the gradient of such a weight can be put off: a parameter, or one
  /// in the type of autocast. What other operators have made of parameters may
  /// no longer know how when backward is over.
  static bool takes(const at::Tensor& weight);

 private:
  struct Item {
    std::vector<torch::autograd::Edge> weights; ///< not their values
    Compute compute;
  };
  mutable std::mutex mutex_; ///< backward may run on threads of its own
  std::vector<Item> items_;
};

/// Forward passes of this thread put the gradients of their weights off, as
/// long as the scope lasts. Activation checkpoints do as their first forward
/// did.
class [[nodiscard]] DeferWeightGradients {
 public:
  /// Null: nothing is put off.
  explicit DeferWeightGradients(std::shared_ptr<DeferredGradients> later);
  ~DeferWeightGradients();
  DeferWeightGradients(const DeferWeightGradients&) = delete;
  DeferWeightGradients& operator=(const DeferWeightGradients&) = delete;

  /// Of the innermost scope; null: none.
  static const std::shared_ptr<DeferredGradients>& current();

 private:
  std::shared_ptr<DeferredGradients> before_;
};

} // namespace cairn::nn
