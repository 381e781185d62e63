#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/distributed/process_group.h>
#include <cairn/engine/engine.h>
#include <cairn/monitor/run_values.h>
#include <cairn/monitor/training_log.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::evaluate {

/// The log of a training: Megatron's lines, and the files that the flags ask
/// for.
class TrainingReport {
 public:
  struct Options {
    const config::Config& config;
    std::int64_t iterations = 0; ///< of the whole run
    std::int64_t first_iteration = 0;
    std::int64_t sequence_length = 0;
    const distributed::World& world;
    distributed::ProcessGroup data; ///< ranks with different samples
    monitor::NamedTexts versions{};
    Logger logger{};
  };

  explicit TrainingReport(const Options& options);

  /// Notes the loss of an update, and shows it where a line is due. Throws
  /// DataError for a loss that is not finite.
  void after_step(const Engine& engine, const at::Tensor& loss);
  /// Shows the loss on validation data, the mean over all ranks.
  void validated(const Engine& engine, const at::Tensor& loss);
  /// Prints a line on rank 0.
  void say(const std::string& line);
  /// The time until the pause is gone does not count as training.
  std::unique_ptr<monitor::TrainingLog::Pause> pause();
  void finish(const Engine& engine);

  /// The mean loss of each update so far, over all ranks.
  std::vector<double> losses();

 private:
  /// Reads the losses that are not read yet. All ranks call it.
  void read_losses();
  void show(const Engine& engine);

  const config::Config& config_;
  std::int64_t iterations_;
  std::int64_t sequence_length_;
  std::int64_t interval_;
  distributed::ProcessGroup data_;
  std::optional<monitor::TrainingLog> log_; ///< on rank 0
  std::vector<at::Tensor> waiting_;         ///< losses of this rank
  std::vector<double> losses_;
  std::size_t shown_ = 0; ///< losses that a line has shown
  std::int64_t skipped_ = 0;
};

} // namespace cairn::evaluate
