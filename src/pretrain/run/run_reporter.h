#pragma once

#include "pretrain/run/loss_meter.h"
#include "pretrain/run/run_parts.h"
#include "pretrain/run/step_times.h"

#include <cairn/monitor/training_log.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::pretrain {

/// What is said and written of a run. All ranks call it alike, since their
/// losses and times are put together; one of them speaks.
class RunReporter {
 public:
  explicit RunReporter(RunParts& parts);

  /// Of a micro batch.
  void add(const Losses& losses) { losses_.add(losses); }
  /// Whether somebody gets to see more of that iteration than the loss.
  bool shows(std::int64_t iteration) const;
  /// After every step: reports where it is time to. Throws DataError for a
  /// loss that is not finite.
  void after_step();

  struct Evaluation {
    data::Split split;
    std::string at; ///< "iteration 100"
    LossMeter losses{};
  };
  void evaluated(Evaluation evaluation);

  /// None on ranks that do not speak.
  std::optional<monitor::TrainingLog>& log() { return log_; }
  /// How much memory everything has, for the log.
  void say_memory();
  void finish(Ended ended);

 private:
  void open(const config::LoggingFlags& flags);
  void report();
  monitor::IterationValues values(std::int64_t iterations);
  void say_times();
  std::vector<monitor::NamedValue> mean(LossMeter& meter) const;

  RunParts& parts_;
  LossMeter losses_;
  StepTimes times_;
  std::optional<monitor::TrainingLog> log_; ///< on the rank that speaks
  std::int64_t write_every_ = 1;
  std::int64_t report_every_ = 1;
  std::int64_t reported_; ///< the last iteration that was
  std::int64_t tokens_reported_;
  double flops_ = 0; ///< since then
  std::int64_t times_reported_;
  std::int64_t skipped_before_;
  bool memory_said_ = false; ///< once there is something to say of
};

} // namespace cairn::pretrain
