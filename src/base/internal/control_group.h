#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace cairn::inline base {

/// Limits set by the control groups of this process; empty where there is none.
struct ControlGroupLimits {
  std::optional<double> cpus; ///< e.g. 2.5: two and a half CPUs' worth of time
  std::optional<std::uint64_t> memory_bytes;

  /// Reads control groups of versions 1 and 2. `root` stands for `/`, so that
  /// tests can bring their own /proc and /sys.
  static ControlGroupLimits read(const std::filesystem::path& root = "/");
};

} // namespace cairn::base
