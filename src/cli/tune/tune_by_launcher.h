#pragma once

#include <string_view>

namespace cairn::cli {

/// The first argument of `cairn tune` from `cairn launch --autotuning`. Behind
/// it come the number of ranks, "tune" or "run", the number of the launcher's
/// words to repeat, these words, and the program with its arguments.
inline constexpr std::string_view by_launcher = "--by-launcher";

} // namespace cairn::cli
