#pragma once

#include <cairn/config/config.h>
#include <cairn/model/description.h>

namespace cairn::config {

/// Throws ConfigError for flags and keys that a model of this kind cannot be
/// trained with. Everything else must have been checked: Config::check.
void check_kind(model::ModelKind kind, const Config& config);

} // namespace cairn::config
