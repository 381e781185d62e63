#pragma once

#include <string>

namespace cairn::monitor {

/// The name of this machine; `localhost` if it has none.
std::string host_name();

} // namespace cairn::monitor
