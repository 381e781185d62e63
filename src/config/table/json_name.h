#pragma once

#include <nlohmann/json_fwd.hpp>

namespace cairn::config {

/// JSON that keeps the order of keys, so that what is printed reads like what
/// was given. This header declares it alone; its code is in json_tree.h.
using Json = nlohmann::ordered_json;

} // namespace cairn::config
