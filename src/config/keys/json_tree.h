#pragma once

#include <cairn/config/node.h>
#include "config/table/json_name.h"

#include <nlohmann/json.hpp>

namespace cairn::config {

Json to_json(const Node& node);

} // namespace cairn::config
