#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::launch {

/// The GPUs and cores that a node offers its ranks.
struct Machine {
  /// Names as in CUDA_VISIBLE_DEVICES; empty on a machine without GPUs.
  std::vector<std::string> gpus;
  std::vector<int> cores; ///< logical cores that this process may use
  int threads = 1;        ///< threads worth running: physical cores
};

Machine inspect_machine();

/// The GPUs that have a device file (`nvidia0`, …) in `devices`, restricted to
/// `visible`, the value of CUDA_VISIBLE_DEVICES if it is set.
std::vector<std::string> find_gpus(
    const std::filesystem::path& devices,
    std::optional<std::string_view> visible);

/// Parses a list such as `1,3-5,7`. Throws ConfigError for anything else.
std::vector<int> parse_core_list(std::string_view text);

} // namespace cairn::launch
