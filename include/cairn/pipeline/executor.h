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

/// What surrounds the passes of a stage; each may be left out.
struct Hooks {
  using Pass = std::function<void()>;
  /// Calls `pass`, once for each micro batch and chunk, in training and
  /// evaluation.
  std::function<void(const Pass& pass)> forward{};
  /// Calls `pass`, which adds to the gradients of this stage's parameters;
  /// `last`: they are complete afterwards. If the schedule splits backward,
  /// this is called for each of its two passes.
  std::function<void(const Pass& pass, bool last)> backward{};
  /// On the last stage: what backward starts from. Left out: the loss divided
  /// by the number of micro batches.
  std::function<at::Tensor(const at::Tensor& loss)> scale{};
  /// Inputs of the first layer, on the device already.
  std::function<at::Tensor(const at::Tensor& input)> prepare{};
  /// All gradients are there: update the parameters.
  std::function<void()> step{};
};

/// When a stage tells the next one the shapes and types of its activations.
enum class Announce {
  /// A word with every message says whether they are as before. On a GPU the
  /// receiver has to wait for it.
  when_changed,
  /// With the first; that they change is then an error.
  once
};

struct ExecutorOptions {
  std::function<Schedule(int stages, int micro_batches)> schedule =
      one_forward_one_backward;
  Announce announce = Announce::when_changed;
  at::Device device = at::kCPU;
  Hooks hooks{};
};

/// Runs a schedule: this stage's part of it, with the other stages in processes
/// of their own. All stages make the same calls.
///
/// If one stage fails, it tells the others, which end with its reason as a
/// CommError.
class Executor {
 public:
  /// Gives every stage the owner's values of tied weights. `module` must live
  /// as long. Throws ConfigError if it was not made for this pipeline.
  Executor(
      PipelineModule& module,
      distributed::ProcessGroup pipeline,
      ExecutorOptions options = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Forward and backward of so many micro batches, and the step. Returns the
  /// mean of their losses, on every stage.
  at::Tensor train_batch(const NextMicroBatch& next, int micro_batches);
  /// The same without gradients, with the module in evaluation mode.
  at::Tensor eval_batch(const NextMicroBatch& next, int micro_batches);
  /// The parts of the last batch's loss by their names, the mean of each over
  /// its micro batches, on every stage.
  const std::vector<std::pair<std::string, at::Tensor>>& loss_parts() const;
  /// What the last layer gives for each micro batch; nothing on other stages.
  std::vector<Tensors> infer(const NextMicroBatch& next, int micro_batches);

  /// Copies of tied weights take their owner's values: after something else
  /// than train_batch() has changed them, such as loading a checkpoint.
  void share_tied_weights();

  /// Most micro batches that waited for their last pass at once, so far; in
  /// each chunk they count as one.
  int most_live_activations() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::pipeline
