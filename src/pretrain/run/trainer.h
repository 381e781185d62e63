#pragma once

#include "monitor/internal/profiler_traces.h"
#include "pretrain/run/batch_feed.h"
#include "pretrain/run/run_parts.h"
#include "pretrain/run/run_reporter.h"
#include "pretrain/run/stop_conditions.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace cairn::pretrain {

/// The loop: steps, evaluations, saves.
class Trainer {
 public:
  explicit Trainer(RunParts parts);

  Outcome run();

 private:
  void begin();
  std::optional<Ended> train();
  void step();
  void evaluate(data::Split split, const std::string& at);
  BatchPasses passes_of(std::function<models::ModelInput()> next);
  void save();
  bool is_due(const std::optional<std::int64_t>& interval) const;
  std::int64_t iteration() const { return parts_.iteration(); }

  RunParts parts_;
  StopConditions stop_;
  std::optional<BatchFeed> batches_; ///< from begin() on
  std::optional<RunReporter> log_;   ///< from begin() on
  std::optional<monitor::ProfilerTraces> traces_;
  bool records_ = false; ///< passes become CUDA graphs
  std::optional<std::int64_t> saved_at_;
};

} // namespace cairn::pretrain
