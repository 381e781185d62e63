#pragma once

#include <cairn/config/config.h>
#include "config/flags/flag_parser.h"
#include "config/keys/deepspeed_reader.h"

namespace cairn::config {

/// Merges flags and JSON keys that mean the same: a value given on one side is
/// set on the other; two sides that disagree are an error that names both.
void merge(ParsedFlags& parsed, DeepSpeedRead& read);

/// Gives flags with a JSON counterpart its final value, after resolution.
void fill_flags(Flags& flags, const DeepSpeedConfig& config);

} // namespace cairn::config
