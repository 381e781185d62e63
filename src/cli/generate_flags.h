#pragma once

#include <cairn/base/log.h>
#include <cairn/config/config.h>

#include <string_view>

namespace cairn::cli {

/// Whether `cairn generate` does something with the flag.
bool generate_acts_on(std::string_view flag);

/// Throws ConfigError for flags that neither generation nor training acts on,
/// and without a checkpoint; logs warnings, and those that are about training.
void check_generate_flags(const config::Config& config, const Logger& logger);

} // namespace cairn::cli
