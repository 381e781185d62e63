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

/// Reports a run: log lines, files, the live plot. All ranks make the same
/// calls, since their losses and times are put together; one of them writes.
class RunReporter {
 public:
  explicit RunReporter(RunParts& parts);

  /// Adds the losses of a step.
  void add(const LossParts& losses) { losses_.add(losses); }
  /// True when more of that iteration than its loss is shown.
  bool shows(std::int64_t iteration) const;
  /// Called after every step; reports when a report is due. Throws DataError
  /// for a loss that is not finite.
  void after_step();

  struct Evaluation {
    data::Split split;
    std::string at; ///< "iteration 100"
    LossMeter losses{};
  };
  void evaluated(Evaluation evaluation);

  /// Empty on ranks that do not write.
  std::optional<monitor::TrainingLog>& log() { return log_; }
  /// Logs how much memory each part of the training holds.
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
  std::optional<monitor::TrainingLog> log_; ///< on the rank that writes
  std::int64_t write_every_ = 1;
  std::int64_t report_every_ = 1;
  std::int64_t reported_; ///< the last iteration that was
  std::int64_t tokens_reported_;
  double flops_ = 0; ///< since then
  std::int64_t times_reported_;
  std::int64_t skipped_before_;
  bool memory_said_ = false; ///< the first report has come
};

} // namespace cairn::pretrain
