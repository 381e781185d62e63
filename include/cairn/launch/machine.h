#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::launch {

/// What a node has to offer its ranks.
struct Machine {
  /// As CUDA_VISIBLE_DEVICES names them; empty on a machine without GPUs.
  std::vector<std::string> gpus;
  std::vector<int> cores; ///< logical ones, on which this process may run
  int threads = 1;        ///< that are worth running at once: physical cores
};

Machine inspect_machine();

/// The GPUs that have a device file (`nvidia0`, …) in `devices`, cut down to
/// `visible`, the value of CUDA_VISIBLE_DEVICES where that is set.
std::vector<std::string> find_gpus(
    const std::filesystem::path& devices,
    std::optional<std::string_view> visible);

/// Reads a list such as `1,3-5,7`; a ConfigError when it is anything else.
std::vector<int> parse_core_list(std::string_view text);

} // namespace cairn::launch
