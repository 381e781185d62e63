#pragma once

#include "cli/program/command.h"

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace cairn::cli {

/// A cairn command in a process of its own, and a group of processes that can
/// be ended together. It is told to end when this process does, however that
/// comes.
class ChildCommand {
 public:
  /// What it prints goes to the end of `log`; without one, where ours goes.
  ChildCommand(
      const Arguments& arguments,
      const std::optional<std::filesystem::path>& log = std::nullopt);
  /// Ends it if it still runs.
  ~ChildCommand();
  ChildCommand(const ChildCommand&) = delete;
  ChildCommand& operator=(const ChildCommand&) = delete;

  /// Its exit code once it has ended (128 + a signal's number if one ended it).
  std::optional<int> poll();
  int wait();
  /// All of its processes at once, as a crash would end them.
  void kill();

 private:
  pid_t process_ = -1;
  std::optional<int> code_;
};

/// As one would type it, in lines that begin at column `indent` but for the
/// first.
std::string command_text(const Arguments& arguments, std::size_t indent);

} // namespace cairn::cli
