#pragma once

#include "cli/program/command.h"

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace cairn::cli {

/// A cairn command in its own process and its own process group, so that all
/// its processes can be ended together. It is told to end when this process
/// ends, for any reason.
class ChildCommand {
 public:
  /// Appends its output to `log`; without one, it goes where ours goes.
  ChildCommand(
      const Arguments& arguments,
      const std::optional<std::filesystem::path>& log = std::nullopt);
  /// Ends it if it still runs.
  ~ChildCommand();
  ChildCommand(const ChildCommand&) = delete;
  ChildCommand& operator=(const ChildCommand&) = delete;

  /// The exit code once it has ended (128 + the signal's number if one ended
  /// it).
  std::optional<int> poll();
  int wait();
  /// Ends all of its processes at once, as a crash would.
  void kill();
  /// Asks it to end, and waits until it has.
  void stop();

 private:
  pid_t process_ = -1;
  std::optional<int> code_;
};

/// The command as one would type it. All lines but the first begin at column
/// `indent`.
std::string command_text(const Arguments& arguments, std::size_t indent);

} // namespace cairn::cli
