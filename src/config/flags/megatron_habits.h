#pragma once

#include "config/flags/flag_parser.h"

namespace cairn::config {

/// Gives flags that are spelled as only today's Megatron-LM spells them the
/// meaning that they have there, where Megatron-DeepSpeed has other defaults,
/// and says so. What the command line says itself stays. Throws ConfigError for
/// a flag that contradicts another.
void follow_megatron(ParsedFlags& parsed);

} // namespace cairn::config
