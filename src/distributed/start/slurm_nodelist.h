#pragma once

#include <string>
#include <string_view>

namespace cairn::distributed {

/// The first host of a Slurm list such as `gpu[03-05,7],login1`: `gpu03`.
/// Throws ConfigError when the brackets make no sense.
std::string first_slurm_host(std::string_view nodelist);

} // namespace cairn::distributed
