#pragma once

#include "engine/build/job.h"
#include "engine/build/trained_model.h"

namespace cairn::inline engine {

/// Brings the model to its device and type, and finds its parameters and which
/// ranks share them. All ranks call it. Throws UsageError for a model without
/// parameters, or with experts that the mesh does not fit.
void prepare_model(const Job& job, TrainedModel& trained);

} // namespace cairn::engine
