#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::inline base {

/// The state of a job at one moment.
struct ProgressMoment {
  std::string_view label;
  std::string_view unit;
  std::uint64_t count = 0;
  std::uint64_t total = 0; ///< 0: not known
  std::chrono::duration<double> elapsed{};
  std::string_view second_unit{}; ///< empty: there is no second count
  std::uint64_t second_count = 0;
};

/// `12.3 MB` for unit "B", `12.3k items` for other units; three digits.
std::string amount(double count, std::string_view unit);

/// `0:07`, `3:25`, `1:03:25`, `4d 01:03`.
std::string clock_time(std::chrono::duration<double> time);

/// `label  42% [====>     ] 1.2 GB/3.0 GB  512 MB/s  0:03 left`, in at most
/// `width` columns: the bar shrinks first, then parts are left out, the least
/// needed first.
std::string bar_line(const ProgressMoment& moment, std::size_t width);

/// `label: 1.2 GB of 3.0 GB (42%), 512 MB/s, 0:03 left`
std::string plain_line(const ProgressMoment& moment);

/// `label: 3.0 GB in 0:06 (512 MB/s)`
///
/// With a second unit, bar_line, plain_line and final_line show the rate as
/// `512 MB/s, 1.20k documents/s`.
std::string final_line(const ProgressMoment& moment);

} // namespace cairn::base
