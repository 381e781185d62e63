#pragma once

#include <cairn/pipeline/schedule.h>

namespace cairn::pipeline {

/// Throws UsageError unless all messages of a schedule meet their other end
/// although each blocks the stages that send and receive it. The check assumes
/// that every stage shares a weight with every other.
void check_messages(const Schedule& schedule);

} // namespace cairn::pipeline
