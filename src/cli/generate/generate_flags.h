#pragma once

#include <cairn/base/log.h>
#include <cairn/config/config.h>

namespace cairn::cli {

/// Throws ConfigError for flags that neither generation nor training acts on,
/// and when no checkpoint is named. Logs the warnings of the configuration, and
/// the flags that are about training alone.
void check_generate_flags(const config::Config& config, const Logger& logger);

} // namespace cairn::cli
