#pragma once

#include "engine/build/job.h"
#include "engine/build/trained_model.h"
#include "engine/memory/memory_use.h"

namespace cairn::inline engine {

/// What the log of rank 0 says of memory for a model that the planner does not
/// know: the states by plan before the first step, activations as measured
/// after it.
class MemoryLog {
 public:
  /// Says nothing unless `speaks`.
  MemoryLog(const Job& job, bool speaks) : job_(job), speaks_(speaks) {}

  void begin(const TrainedModel& trained) const;
  void end_update(
      const TrainedModel& trained,
      const ActivationUse& activations);

 private:
  const Job& job_;
  bool speaks_;
};

} // namespace cairn::engine
