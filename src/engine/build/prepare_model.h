#pragma once

#include "engine/build/job.h"
#include "engine/build/trained_model.h"

#include <cairn/nn/later_values.h>

namespace cairn::inline engine {

/// Brings the model to its device and type, and finds its parameters and which
/// ranks share them. All ranks call it. Throws UsageError for a model without
/// parameters, with experts that the mesh does not fit, or with parameters
/// without memory for which `later` has no values. `later` may be null.
void prepare_model(
    const Job& job,
    const nn::LaterValues* later,
    TrainedModel& trained);

} // namespace cairn::engine
