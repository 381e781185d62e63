#include "cli/program/subcommands.h"

#include "base/internal/edit_distance.h"

#include <cairn/base/error.h>

#include <fmt/core.h>

namespace cairn::cli {

int run_subcommand(
    std::string_view family,
    std::span<const Command> members,
    const Arguments& arguments) {
  const std::string name = arguments.empty() ? "--help" : arguments.front();
  if (name == "--help" || name == "-h" || name == "help") {
    fmt::print("Usage: cairn {} COMMAND [ARGUMENTS…]\n\nCommands:\n", family);
    for (const Command& member : members) {
      fmt::print("  {:<14} {}\n", member.name, member.summary);
    }
    fmt::print("\n`cairn {} COMMAND --help` tells more about one.\n", family);
    return exit_ok;
  }
  std::vector<std::string_view> names;
  for (const Command& member : members) {
    if (member.name == name) {
      return member.run(Arguments(arguments.begin() + 1, arguments.end()));
    }
    names.push_back(member.name);
  }
  const auto closest = nearest(name, names);
  throw ConfigError(
      {.what = fmt::format("there is no command \"{} {}\"", family, name),
       .remedy = closest
           ? fmt::format("did you mean \"{}\"?", *closest)
           : fmt::format("`cairn {} --help` lists them", family)});
}

} // namespace cairn::cli
