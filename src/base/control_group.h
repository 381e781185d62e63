#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace cairn {

/// What the control groups this process is in allow it; none where nothing
/// limits it.
struct ControlGroupLimits {
  std::optional<double> cpus; ///< e.g. 2.5: two and a half CPUs' worth of time
  std::optional<std::uint64_t> memory_bytes;

  /// Versions 1 and 2. `root` stands for `/`, so that tests can bring their own
  /// /proc and /sys.
  static ControlGroupLimits read(const std::filesystem::path& root = "/");
};

} // namespace cairn
