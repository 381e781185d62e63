#include "base/internal/edit_distance.h"
#include "base/internal/error_handover.h"
#include "base/internal/freed_memory.h"
#include "base/internal/terminal_safe.h"
#include "cli/program/command.h"
#include "cli/program/error_report.h"
#include "version.h"

#include <cairn/base/error.h>

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>

namespace cairn::cli {
namespace {

void print_help(std::span<const Command> commands) {
  fmt::print(
      "Cairn {}: trains large transformers in C++ on libtorch.\n\n"
      "Usage: cairn COMMAND [ARGUMENTS…]\n\n"
      "Commands:\n",
      version);
  for (const Command& command : commands) {
    fmt::print("  {:<19} {}\n", command.name, command.summary);
  }
  fmt::print("\n`cairn COMMAND --help` tells more about one; "
             "`cairn --version` prints the version.\n");
}

const Command& find(std::span<const Command> commands, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Command& command : commands) {
    if (command.name == name) {
      return command;
    }
    names.push_back(command.name);
  }
  const auto closest = nearest(name, names);
  throw ConfigError(
      {.what = fmt::format("there is no command \"{}\"", name),
       .remedy = closest ? fmt::format("did you mean \"{}\"?", *closest)
                         : std::string("`cairn --help` lists them")});
}

namespace fs = std::filesystem;

/// The program beside this one that computes: cairn-cuda on a machine with an
/// NVIDIA driver, if it was built; else cairn-torch.
fs::path torch_program() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path with_gpu = folder / "cairn-cuda";
  const fs::path without_gpu = folder / "cairn-torch";
  std::error_code ignored;
  const bool gpu_here = fs::exists("/dev/nvidiactl", ignored);
  if (fs::exists(with_gpu, ignored) &&
      (gpu_here || !fs::exists(without_gpu, ignored))) {
    return with_gpu;
  }
  return without_gpu;
}

/// Replaces this process by the program that computes, with the same
/// arguments.
[[noreturn]] void become_torch_program(const char* const* argv) {
  ::setenv(keep_memory_variable, keep_memory_value, 0);
  const fs::path program = torch_program();
  ::execv(program.c_str(), const_cast<char* const*>(argv));
  throw Error(
      {.what = "cannot start the libtorch half of Cairn",
       .where = program.string(),
       .values = std::strerror(errno),
       .remedy = "build or install the target cairn-torch (or cairn-cuda, for "
                 "GPUs) beside cairn"});
}

int run_command(
    std::span<const Command> commands,
    int argc,
    const char* const* argv) {
  const std::string_view name = argc > 1 ? argv[1] : "--help";
  if (name == "--help" || name == "-h") {
    print_help(commands);
    return exit_ok;
  }
  if (name == "--version") {
    fmt::print("cairn {}\n", version);
    return exit_ok;
  }
  const Command& command = find(commands, name);
  if (command.run == nullptr) {
    become_torch_program(argv);
  }
  return command.run(Arguments(argv + 2, argv + argc));
}

/// Writes out buffered output; the exit code tells whether it could be written.
int flush_output() {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!written && errno != EPIPE) { // a reader that left needs no message
    fmt::print(
        stderr,
        "cairn: cannot write to standard output{}{}\n",
        errno == 0 ? "" : ": ",
        errno == 0 ? "" : std::strerror(errno));
  }
  return written ? exit_ok : exit_failure;
}

} // namespace

int report_error(const std::exception& error) {
  // A bug in Cairn itself, which no flag can mend.
  const bool own_mistake =
      dynamic_cast<const InternalError*>(&error) != nullptr ||
      dynamic_cast<const UsageError*>(&error) != nullptr;
  // The text may quote a file.
  fmt::print(
      stderr,
      "cairn: {}{}\n",
      own_mistake ? "internal error, please report it: " : "",
      terminal_safe(error.what()));
  hand_over_error(
      {.of_another_rank = dynamic_cast<const CommError*>(&error) != nullptr,
       .text = error.what()});
  return dynamic_cast<const ConfigError*>(&error) != nullptr ? exit_bad_usage
                                                             : exit_failure;
}

int run_program(
    std::span<const Command> commands,
    int argc,
    const char* const* argv) {
  try {
    const int code = run_command(commands, argc, argv);
    return code == exit_ok ? flush_output() : code;
  } catch (const Reported& reported) {
    return reported.exit_code;
  } catch (const std::exception& error) {
    return report_error(error);
  }
}

} // namespace cairn::cli
