#include "cli/program/command.h"

#include <fmt/core.h>

#include <cstdlib>

namespace cairn::cli {
namespace {

/// A subcommand to be launched: tells its rank and its arguments.
int run_tell(const Arguments& arguments) {
  fmt::print("rank {} of {}", std::getenv("RANK"), std::getenv("WORLD_SIZE"));
  for (const std::string& argument : arguments) {
    fmt::print(" <{}>", argument);
  }
  fmt::print("\n");
  return exit_ok;
}

constexpr Command commands[] = {
    {"launch", "the launcher", run_launch},
    {"tell", "tells its rank", run_tell},
};

} // namespace

std::span<const Command> all_commands() {
  return commands;
}

} // namespace cairn::cli

int main(int argc, char** argv) {
  return cairn::cli::run_program(cairn::cli::all_commands(), argc, argv);
}
