#pragma once

#include <cairn/config/deepspeed_config.h>
#include <cairn/config/flags.h>
#include <cairn/config/node.h>

#include <cstdint>
#include <functional>
#include <map>
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

/// Sources of a configuration: a file or a JSON text, not both, and flags.
/// Flags may name the file with --deepspeed_config. A flag `@FILE` stands for
/// the flags in a file.
struct ConfigSource {
  std::optional<std::string> file;
  std::optional<std::string> json;
  std::vector<std::string> flags;
  std::int64_t world_size = 1; ///< number of ranks
  /// True: instead of `world_size`, the fewest ranks that the flags' degrees of
  /// parallelism need. Meant for commands that do not run on these ranks.
  bool fewest_ranks = false;
};

/// All settings of a run, read once and consistent. Past this point nobody
/// looks up a key by its name.
struct Config {
  DeepSpeedConfig deepspeed;
  Flags flags;
  std::int64_t world_size = 1;
  std::int64_t data_parallel_size = 1;
  /// Keys and flags that were given, and where: for messages.
  std::map<std::string, Place> given;
  std::vector<std::string> warnings; ///< for the caller to log

  /// Reads, merges and resolves as DeepSpeed and Megatron-LM would, also
  /// settings that Cairn does not support. Throws ConfigError.
  static Config resolve(const ConfigSource& source);
  /// Calls `resolve`, then `check`. Programs use this.
  static Config load(const ConfigSource& source);

  /// Throws ConfigError for unsupported settings and for shapes that cannot
  /// work, such as heads that do not divide over the ranks.
  void check() const;

  /// The resolved configuration: `{"deepspeed": …, "flags": …, …}`.
  std::string json() const;
};

} // namespace cairn::config
