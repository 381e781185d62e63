#pragma once

#include <string>
#include <string_view>

namespace cairn::inline base {

/// The CPU's name, from the text of /proc/cpuinfo.
std::string cpu_model(std::string_view cpuinfo);

} // namespace cairn::base
