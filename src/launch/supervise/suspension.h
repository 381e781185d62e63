#pragma once

#include <chrono>

namespace cairn::launch {

/// The time in which this process was suspended, as somebody does who suspends
/// a whole job: the whole time of a sleep that has lasted much longer than
/// asked for, and otherwise none. What was due when it would have ended is due
/// as long after it as before. `asked` is negative for a sleep without an end,
/// as poll() has it.
inline std::chrono::steady_clock::duration suspended_time(
    std::chrono::steady_clock::duration slept,
    std::chrono::milliseconds asked) {
  constexpr auto late = std::chrono::seconds(1);
  return asked.count() >= 0 && slept - asked > late
      ? slept
      : std::chrono::steady_clock::duration::zero();
}

} // namespace cairn::launch
