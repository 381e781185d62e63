#pragma once

#include <nlohmann/json_fwd.hpp>

namespace cairn::config {

/// JSON that keeps the order of keys, so that output reads like the input. This
/// header declares it alone; its code is in json_tree.h.
using Json = nlohmann::ordered_json;

} // namespace cairn::config
