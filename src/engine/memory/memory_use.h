#pragma once

#include "engine/build/job.h"
#include "engine/build/trained_model.h"

#include <cairn/engine/memory_report.h>

#include <cstdint>
#include <string_view>

namespace cairn::inline engine {

/// Activations of the passes so far.
struct ActivationUse {
  std::int64_t most = 0;     ///< bytes, measured; 0: not known yet
  bool checkpointed = false; ///< the model computes them again in backward
};

/// What this rank holds. Works while the engine is being made, too, when not
/// all of it is there.
MemoryReport memory_report(
    const Job& job,
    const TrainedModel& trained,
    const ActivationUse& activations);

/// Called while an exception is handled: throws it on. If it means that memory
/// is out, logs what there is and what to do, and throws that.
[[noreturn]] void fail(
    std::string_view doing,
    const Job& job,
    const TrainedModel& trained,
    const ActivationUse& activations = {});

} // namespace cairn::inline engine
