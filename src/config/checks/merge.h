#pragma once

#include <cairn/config/config.h>
#include "config/flags/flag_parser.h"
#include "config/keys/deepspeed_reader.h"

namespace cairn::config {

/// Brings flags and JSON keys that mean the same together: what one side says
/// the other learns; two sides that disagree are an error that names both.
void merge(ParsedFlags& parsed, DeepSpeedRead& read);

/// After resolution: flags with a JSON counterpart take its final value.
void fill_flags(Flags& flags, const DeepSpeedConfig& config);

} // namespace cairn::config
