#pragma once

#include <cairn/config/flags.h>

#include <string>
#include <vector>

namespace cairn::config {

/// A flag of the run that saved a checkpoint.
struct StoredFlag {
  std::string name;                ///< of the table: "--num-layers"
  std::vector<std::string> values; ///< none for a switch
  /// A flag that says the same on a command line: "--encoder-seq-length".
  std::string also{};
  bool absent = false; ///< true when the run did not have it: its default
  /// True when it takes precedence over the command line, which otherwise does.
  bool wins = false;
  bool always = false; ///< true when it is to be said even by its default
};

/// A command line that takes flags from a checkpoint.
struct WithStored {
  /// With the words of each `@FILE`, none of which is the name of a file again.
  std::vector<std::string> words;
  // For a person, without control characters:
  std::vector<std::string> taken;     ///< "--num-layers 12", …
  std::vector<std::string> overruled; ///< "--swiglu gives way to …", …
};

/// The flags of a command line alone: neither completed nor compared with each
/// other. Throws ConfigError.
Flags said_flags(const std::vector<std::string>& words);

/// Adds flags of the checkpoint in `place` to a command line. Throws
/// ConfigError.
WithStored with_stored_flags(
    const std::vector<std::string>& words,
    const std::vector<StoredFlag>& stored,
    const std::string& place);

} // namespace cairn::config
