#pragma once

#include <algorithm>
#include <chrono>

namespace cairn::distributed {

/// Cuts a timeout to a year. "Never" may be written as milliseconds::max(), to
/// which nothing can be added: a year is as good.
inline std::chrono::milliseconds bounded(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds year = std::chrono::hours(24 * 365);
  return std::clamp(timeout, std::chrono::milliseconds(0), year);
}

} // namespace cairn::distributed
