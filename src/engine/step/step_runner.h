#pragma once

#include "engine/build/job.h"
#include "engine/build/offered_options.h"
#include "engine/build/trained_model.h"
#include "engine/memory/activation_meter.h"
#include "engine/memory/memory_log.h"
#include "engine/memory/memory_use.h"
#include "engine/step/mean_loss.h"
#include "engine/step/progress.h"
#include "engine/step/repeated_passes.h"
#include "engine/step/step_log.h"
#include "engine/step/step_monitor.h"
#include "engine/step/step_profile.h"
#include "engine/step/tuning_metric.h"
#include "engine/step/updater.h"
#include "nn/internal/fp8_histories.h"

#include <ATen/core/Tensor.h>
#include <cairn/pipeline/micro_batch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline engine {

/// Runs the passes of a training, in the order that a step has: forward,
/// backward, step of each micro batch. train_batch() runs all of an update, and
/// is the only way where the model is cut into pipeline stages. Throws
/// UsageError for any other order.
class StepRunner {
 public:
  /// Parts of the engine, which outlive the runner.
  struct Parts {
    Job& job;
    TrainedModel& trained;
    Progress& progress;
    Updater& updater;
    OfferedOptions& offered;
    StepLog& log;
    StepMonitor& monitor;
    MemoryLog& memory;
  };
  /// Makes the model's pipeline, if it has one. All ranks call it.
  explicit StepRunner(const Parts& parts);
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  void begin_forward();
  void end_forward();
  /// Called while an exception of the forward pass is handled; as fail().
  [[noreturn]] void fail_forward();
  /// An input, as the model takes it: on its device, floating point in its
  /// type.
  at::Tensor prepared(const at::Tensor& input) const;

  void backward(const at::Tensor& loss);
  void step();
  /// True when the next step() updates the weights.
  bool at_boundary() const;

  at::Tensor train_batch(const BatchPasses& passes);
  at::Tensor eval_batch(const BatchPasses& passes, std::int64_t micro_batches);
  const LossParts& loss_parts() const { return loss_parts_; }

  /// False: passes add gradients up without averaging them.
  void set_sync(bool on);
  void train(bool on);
  bool training() const { return training_; }
  void set_train_batch_size(std::int64_t samples);
  bool loss_is_scaled() const;
  ActivationUse activations() const;

 private:
  pipeline::Hooks hooks();
  void check_passes(const BatchPasses& passes, std::string_view verb) const;
  at::Tensor train_stages(const pipeline::NextMicroBatch& next);
  at::Tensor train_whole(const BatchPasses::Forward& forward);
  at::Tensor train_repeated(const RepeatablePass& pass);
  BatchLoss repeated(const RepeatablePass& pass);
  void differentiate(const at::Tensor& loss);
  std::string why_not_repeated() const;
  bool can_repeat();
  void check_accumulation() const;
  void refuse_in_pipeline(std::string_view verb) const;
  void enter_forward();
  void leave_forward();
  at::Tensor scaled(const at::Tensor& loss) const;
  void run_backward(const std::function<void()>& pass, bool last);
  void end_micro_step(bool boundary);
  void advance_fp8();
  void write_step();
  [[noreturn]] void fail(std::string_view doing);

  Job& job_;
  TrainedModel& trained_;
  Progress& progress_;
  Updater& updater_;
  OfferedOptions& offered_;
  StepLog& log_;
  StepMonitor& monitor_;
  MemoryLog& memory_;
  ActivationMeter activations_;
  StepProfile profile_;
  TuningMetric metric_;
  nn::Fp8Histories fp8_;
  LossParts loss_parts_; ///< of the last batch
  /// Made when passes are first repeated.
  std::unique_ptr<RecordingStream> recording_;
  std::optional<RepeatedPasses> passes_;
  std::int64_t warm_updates_ = 0; ///< of this process, before recording
  bool records_ = false; ///< work of the running update is recorded or repeated
  bool in_forward_ = false;
  bool training_ = true;
  bool synchronise_ = true;
  bool said_why_not_ = false;
};

} // namespace cairn::engine
