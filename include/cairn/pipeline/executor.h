#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <cairn/distributed/process_group.h>
#include <cairn/pipeline/micro_batch.h>
#include <cairn/pipeline/pipeline_module.h>
#include <cairn/pipeline/schedule.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::pipeline {

/// Functions around the passes of a stage; each may be left out.
struct Hooks {
  using Pass = std::function<void()>;
  /// Calls `pass`, once for each micro batch and chunk, in training and
  /// evaluation.
  std::function<void(const Pass& pass)> forward{};
  /// Calls `pass`, which adds to the gradients of this stage's parameters. With
  /// `last`, the gradients are complete afterwards. If the schedule splits
  /// backward, the hook is called for each of the two passes.
  std::function<void(const Pass& pass, bool last)> backward{};
  /// Gives the tensor that backward starts from, on the last stage. Left out:
  /// the loss divided by the number of micro batches.
  std::function<at::Tensor(const at::Tensor& loss)> scale{};
  /// Prepares an input of the first layer, which is on the device already.
  std::function<at::Tensor(const at::Tensor& input)> prepare{};
  /// Updates the parameters; all gradients are there.
  std::function<void()> step{};
};

struct ExecutorOptions {
  std::function<Schedule(int stages, int micro_batches)> schedule =
      one_forward_one_backward;
  at::Device device = at::kCPU;
  Hooks hooks{};
};

/// Runs this stage's part of a schedule; the other stages are in processes of
/// their own. All stages make the same calls.
///
/// If one stage fails, it tells the others, which fail with its reason as a
/// CommError.
class Executor {
 public:
  /// Gives every stage the owner's values of tied weights. `module` must
  /// outlive the executor. Throws UsageError if it was not made for this
  /// pipeline.
  Executor(
      PipelineModule& module,
      distributed::ProcessGroup pipeline,
      ExecutorOptions options = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Runs forward and backward of `micro_batches` micro batches, and the step.
  /// Returns the mean of their losses, on every stage.
  at::Tensor train_batch(const NextMicroBatch& next, int micro_batches);
  /// Runs forward only, without gradients and with the module in evaluation
  /// mode. Returns the mean of the losses, on every stage.
  at::Tensor eval_batch(const NextMicroBatch& next, int micro_batches);
  /// The parts of the last batch's loss by their names, on every stage. Each is
  /// the mean over the micro batches.
  const std::vector<std::pair<std::string, at::Tensor>>& loss_parts() const;
  /// Outputs of the last layer for each micro batch; empty on other stages.
  std::vector<Tensors> infer(const NextMicroBatch& next, int micro_batches);

  /// Gives copies of tied weights their owner's values. Call it after anything
  /// but train_batch() has changed them, such as loading a checkpoint.
  void share_tied_weights();

  /// Most micro batches that waited for their last pass at once, so far. A
  /// micro batch counts once in each chunk.
  int most_live_activations() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::pipeline
