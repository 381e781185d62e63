#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::config {

/// The few arguments every program that trains with Cairn understands:
/// `--deepspeed`, `--deepspeed_config FILE` (and their old names) and
/// `--local_rank N`.
struct Args {
  enum class Others {
    refuse, ///< an argument that is not ours is an error
    keep    ///< … is left in `rest` for the program
  };

  bool deepspeed = false;
  std::optional<std::string> deepspeed_config;
  std::int64_t local_rank = -1; ///< -1: not started by a launcher
  std::vector<std::string> rest;
  std::vector<std::string> warnings; ///< for the caller to log

  /// Throws ConfigError.
  static Args parse(
      int argc,
      const char* const* argv,
      Others others = Others::refuse);
};

/// The flags that a program acts on (`takes("--lr")`), in their groups, as
/// `--help` shows them.
std::string flags_text(const std::function<bool(std::string_view)>& takes);

} // namespace cairn::config
