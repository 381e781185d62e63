#pragma once

#include <string>

namespace cairn::monitor {

/// Of this machine; `localhost` where it has none.
std::string host_name();

} // namespace cairn::monitor
