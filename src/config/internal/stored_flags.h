#pragma once

#include <cairn/config/flags.h>

#include <string>
#include <vector>

namespace cairn::config {

/// A flag of the run that saved a checkpoint.
struct StoredFlag {
  std::string name;                ///< of the table: "--num-layers"
  std::vector<std::string> values; ///< none for a switch
  bool absent = false; ///< true when the run did not have it: its default
  /// True when it takes precedence over the command line, which otherwise does.
  bool wins = false;
  bool always = false; ///< true when it is to be said even by its default
};

/// A command line that takes flags from a checkpoint.
struct WithStored {
  std::vector<std::string> words;     ///< with the words of each `@FILE`
  std::vector<std::string> taken;     ///< "--num-layers 12", …
  std::vector<std::string> overruled; ///< "--swiglu: not the checkpoint's", …
};

/// The flags of a command line alone: neither completed nor compared with each
/// other. Throws ConfigError.
Flags said_flags(const std::vector<std::string>& words);

/// Adds flags of a checkpoint to a command line. Throws ConfigError.
WithStored with_stored_flags(
    const std::vector<std::string>& words,
    const std::vector<StoredFlag>& stored);

} // namespace cairn::config
