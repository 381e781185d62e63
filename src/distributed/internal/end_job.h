#pragma once

#include <cairn/distributed/init_distributed.h>

#include <string>

namespace cairn::distributed {

/// Tells the other ranks that this one ends with `error`: they fail with that
/// text. Call it before the world is left, and after the error was printed.
void end_job(const World& world, const std::string& error);

} // namespace cairn::distributed
