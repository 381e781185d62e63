#pragma once

#include <string>
#include <vector>

namespace cairn::cli {

/// Reads one domain per line; "#" begins a remark.
std::vector<std::string> domains_in(const std::string& file);

} // namespace cairn::cli
