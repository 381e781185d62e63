#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/base/log.h>
#include <cairn/config/deepspeed_config.h>
#include <cairn/monitor/monitor.h>
#include <cairn/monitor/timers.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace cairn::inline engine {

/// The files that the JSON's `tensorboard` and `csv_monitor` ask for, with
/// DeepSpeed's curves over samples. On rank 0, and unless the program writes
/// them itself.
class StepMonitor {
 public:
  struct Options {
    const config::DeepSpeedConfig& config;
    bool speaks = false;
    std::span<const std::string> keys_acted_on; ///< by the program
    std::shared_ptr<const monitor::Timers> timers;
  };
  StepMonitor(const Options& options, const Logger& logger);

  /// Takes the loss of a micro batch.
  void add_loss(const at::Tensor& loss);

  struct Step {
    std::int64_t global_step = 0;
    std::int64_t samples = 0; ///< so far
    double learning_rate = 0;
    std::optional<double> loss_scale{};
  };
  /// Writes a step, with the mean of its micro batches' losses.
  void end_step(const Step& step);

 private:
  monitor::Monitor monitor_;
  bool times_ = false; ///< go there, too
  std::shared_ptr<const monitor::Timers> timers_;
  monitor::TimerReader reader_;
  at::Tensor loss_; ///< the sum, where it was computed
  std::int64_t losses_ = 0;
};

} // namespace cairn::engine
