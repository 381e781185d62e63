#pragma once

#include "cli/program/command.h"

#include <CLI/CLI.hpp>

#include <string>

namespace cairn::cli {

/// A CLI11 parser with the manners of every Cairn command: flags are written
/// with dashes and taken with underscores too, help shows `usage` first and
/// `example` last, and unreadable arguments are a ConfigError in our own words
/// that names the nearest flag.
///
///   CommandLine line("cairn tokenize [FLAGS…]", "cairn tokenize …");
///   line.app().add_option("--input", input, "file, or - for standard input");
///   if (!line.parse(arguments)) {
///     return exit_ok; // help was asked for and printed
///   }
class CommandLine {
 public:
  CommandLine(std::string usage, std::string example);

  CLI::App& app() noexcept { return app_; }

  /// False when help was asked for and has been printed.
  bool parse(const Arguments& arguments);

 private:
  Arguments with_dashes(const Arguments& arguments) const;
  /// Makes sure that a flag that needs a value does not take the next flag for
  /// it.
  void require_values(const Arguments& words) const;
  const CLI::Option* find(const std::string& word) const;
  [[noreturn]] void refuse(const std::string& typed) const;

  std::string command_; ///< "cairn tokenize"
  CLI::App app_;
};

/// The check of a number that has no upper limit; CLI11's own shows 10^308.
CLI::Validator at_least(int least);

} // namespace cairn::cli
