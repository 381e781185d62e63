#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/optim/parameter_groups.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cairn::inline engine {

/// Parameters that are trained alike; what the patch leaves open is the
/// optimizer's.
struct ParameterGroup {
  std::vector<at::Tensor> parameters;
  optim::GroupValuesPatch values{};
};

/// Megatron's rule: no weight decay on biases and one-dimensional parameters.
std::vector<ParameterGroup> no_decay_groups(const torch::nn::Module& module);

struct Core;

/// The engine's optimizer, to look at and to adjust; the engine steps it.
class Optimizer {
 public:
  explicit Optimizer(std::shared_ptr<Core> core);

  std::string name() const;
  /// Values of each parameter group. Changes count from the next step (a
  /// schedule may overwrite them).
  std::vector<optim::GroupValues>& param_groups();
  double cur_scale() const; ///< of the loss
  double loss_scale() const { return cur_scale(); }

 private:
  std::shared_ptr<Core> core_;
};

/// The learning-rate schedule; the engine moves it.
class LearningRate {
 public:
  explicit LearningRate(std::shared_ptr<Core> core);

  /// Learning rates that the next step uses, of each parameter group.
  std::vector<double> get_last_lr() const;
  /// Updates so far, or samples if the schedule counts those. Skipped steps do
  /// not count.
  std::int64_t steps() const;

 private:
  std::shared_ptr<Core> core_;
};

} // namespace cairn::engine
