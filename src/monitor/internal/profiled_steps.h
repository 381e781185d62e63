#pragma once

#include <cairn/config/flags.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace cairn::monitor {

/// A range of iterations, counted from 1 as in log lines; both ends are
/// included.
struct StepRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  bool operator==(const StepRange&) const = default;
};

/// The iterations to trace on that rank, as sorted ranges that do not overlap.
/// They come from `--profile-steps` ("2-4", "7,9") or from
/// `--profile-step-start` and `-end`, which count as in Megatron-LM: from 0,
/// with the end excluded. Empty without `--profile`, and on ranks that
/// `--profile-ranks` does not name; an empty list of ranks names all.
std::vector<StepRange> profiled_steps(
    const config::LoggingFlags& flags,
    std::int64_t rank);

/// The folder for traces: `profiling` beside `--tensorboard-dir`, or in the
/// working folder.
std::filesystem::path profiling_folder(const config::LoggingFlags& flags);

} // namespace cairn::monitor
