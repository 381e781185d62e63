#pragma once

#include <cairn/config/flags.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace cairn::monitor {

/// Iterations as log lines count them, from 1; both are in it.
struct StepRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  bool operator==(const StepRange&) const = default;
};

/// Which iterations are traced on that rank, in order and apart: those of
/// `--profile-steps` ("2-4", "7,9"), or of `--profile-step-start` and `-end`,
/// which count as Megatron-LM does: from 0, the end not in it. None without
/// `--profile`, and on ranks that `--profile-ranks` does not name; an empty
/// list of ranks names all.
std::vector<StepRange> profiled_steps(
    const config::LoggingFlags& flags,
    std::int64_t rank);

/// Where traces go: `profiling` beside `--tensorboard-dir`, or in the working
/// folder.
std::filesystem::path profiling_folder(const config::LoggingFlags& flags);

} // namespace cairn::monitor
