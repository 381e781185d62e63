#pragma once

#include "engine/build/job.h"
#include "engine/build/trained_model.h"

#include <cairn/engine/engine_status.h>

#include <cstdint>
#include <string_view>

namespace cairn::inline engine {

/// Activations of the passes so far.
struct ActivationUse {
  std::int64_t most = 0;     ///< bytes, measured; 0: not known yet
  bool checkpointed = false; ///< the model computes them again in backward
};

/// The memory that this rank holds. Also works while the engine is being made
/// and some parts are missing.
MemoryReport memory_report(
    const Job& job,
    const TrainedModel& trained,
    const ActivationUse& activations);

/// Rethrows the exception that is being handled. If memory ran out, logs the
/// memory's use and remedies, and throws an error with these.
[[noreturn]] void fail(
    std::string_view doing,
    const Job& job,
    const TrainedModel& trained,
    const ActivationUse& activations = {});

} // namespace cairn::engine
