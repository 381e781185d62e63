#pragma once

#include <cairn/config/deepspeed_config.h>
#include <cairn/config/node.h>

#include "config/keys/json_tree.h"

#include <map>
#include <string>
#include <vector>

namespace cairn::config {

struct DeepSpeedRead {
  DeepSpeedConfig config;
  std::map<std::string, Place> given;     ///< by the canonical path
  std::map<std::string, Place> automatic; ///< keys that say "auto"
  std::vector<std::string> warnings;
};

/// Reads every key into its member. Names, types and ranges are checked here;
/// how keys go together is checked later.
DeepSpeedRead read_deepspeed(const Node& root, const std::string& file);

/// Works out the values that follow from other keys (everything but the batch)
/// and refuses settings that DeepSpeed itself refuses.
void resolve_deepspeed(
    DeepSpeedConfig& config,
    const std::map<std::string, Place>& given);

/// The resolved values as JSON under DeepSpeed's key names: a file that would
/// resolve to the same again.
Json deepspeed_json(const DeepSpeedConfig& config);

/// The place where a key was given, or its bare name.
std::string place_of(
    const std::map<std::string, Place>& given,
    const std::string& path);

} // namespace cairn::config
