#pragma once

#include "checkpoints/internal/manifest.h"

#include <string>

namespace cairn::checkpoints {

/// Says which counts of a manifest contradict each other, whoever saved it: its
/// step and the counts in its state. Empty when none do. Counts that the state
/// lacks contradict nothing.
std::string fault_of_counts(const Manifest& manifest);

/// Says which counts are unlikely together: the tag, the step, the samples, the
/// updates of the optimizer and the steps of the schedule. A run may have such
/// counts, since it may choose its tags and load a schedule without a step; in
/// a manifest without a checksum they rather mean that it was altered. Empty
/// when they are likely.
std::string doubt_of_counts(const Manifest& manifest);

} // namespace cairn::checkpoints
