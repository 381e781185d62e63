#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/pipeline/micro_batch.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::inline engine {

/// Losses by their names, such as "lm loss" and "sop loss".
using LossParts = std::vector<std::pair<std::string, at::Tensor>>;

/// The loss of a micro batch that is trained on, and the parts it is made of.
struct BatchLoss {
  BatchLoss(at::Tensor the_loss, LossParts its_parts = {})
      : loss(std::move(the_loss)), parts(std::move(its_parts)) {}

  at::Tensor loss;
  LossParts parts;
};

/// The inputs of a pass: tensors, and a number for whatever else the pass
/// depends on.
struct PassInputs {
  std::vector<at::Tensor> tensors; ///< some may be undefined
  std::int64_t variant = 0;
};

/// A forward pass that depends on its inputs alone and never waits for the GPU,
/// so that it can be recorded as a CUDA graph with its backward pass, and
/// repeated for all inputs of the same shapes. No random numbers.
struct RepeatablePass {
  std::function<PassInputs()> next;
  /// Calls forward of the engine, and returns the loss.
  std::function<BatchLoss(const PassInputs&)> forward;
  /// Updates of this process before anything is recorded, at least one.
  std::int64_t warm_up = 3;
};

/// The micro batches of a batch, for Engine::train_batch() and eval_batch().
/// A model in one piece wants the first form, a model that is cut into pipeline
/// stages the second. A program that trains either gives both.
class BatchPasses {
 public:
  /// Calls forward of the engine with the next micro batch, and returns the
  /// loss.
  using Forward = std::function<BatchLoss()>;

  template <typename Function>
  requires std::convertible_to<std::invoke_result_t<Function&>, BatchLoss>
  BatchPasses(Function forward) : forward_(std::move(forward)) {}

  /// Gives the next micro batch.
  template <typename Function>
  requires std::convertible_to<
      std::invoke_result_t<Function&>,
      std::optional<pipeline::MicroBatch>>
  BatchPasses(Function next) : next_(std::move(next)) {}

  BatchPasses(Forward forward, pipeline::NextMicroBatch next)
      : forward_(std::move(forward)), next_(std::move(next)) {}

  /// Also gives the forward pass in a form that can be repeated. train_batch()
  /// uses it on GPUs, one or several over NCCL, for whole models of ZeRO stages
  /// 0 to 2 in bf16 or fp32; it logs why where it does not.
  void set_repeatable(RepeatablePass pass) { repeatable_ = std::move(pass); }

  /// The forward pass and the next micro batch; empty where not given.
  const Forward& forward() const { return forward_; }
  const std::optional<RepeatablePass>& repeatable() const {
    return repeatable_;
  }
  const pipeline::NextMicroBatch& next() const { return next_; }

 private:
  Forward forward_;
  pipeline::NextMicroBatch next_;
  std::optional<RepeatablePass> repeatable_;
};

} // namespace cairn::engine
