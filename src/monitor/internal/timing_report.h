#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::monitor {

/// The times of one timer on all ranks, in milliseconds; 0 where it never ran.
struct RankTimes {
  std::string name;
  std::vector<double> times; ///< by rank
};

/// Megatron-LM's report, for `--timing-log-option` max, minmax or all:
///
///   (min, max) time across ranks (ms):
///       forward-backward ...............................: (101.20, 103.44)
///
/// Ranks where a timer never ran do not count; a timer that ran nowhere is left
/// out. Empty when none ran.
std::string timing_report(
    std::string_view option,
    std::span<const RankTimes> timers);

} // namespace cairn::monitor
