#pragma once

#include <cairn/config/node.h>

#include <nlohmann/json.hpp>

namespace cairn::config {

/// Keeps the order of keys, so that what is printed reads like what was given.
using Json = nlohmann::ordered_json;

Json to_json(const Node& node);

} // namespace cairn::config
