#pragma once

#include "config/internal/flag.h"

#include <cairn/config/flags.h>
#include <cairn/config/node.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace cairn::config {

enum class Unknown { refuse, keep };

struct ParsedFlags {
  Flags flags;
  /// Canonical names of the flags given, with where (and how) they were.
  std::map<std::string, Place> given;
  std::vector<std::string> warnings;
  /// Arguments that `Unknown::keep` leaves to the program.
  std::vector<std::string> rest;
};

/// True for a word that begins a flag, and is no value of one: a negative
/// number is a value.
bool looks_like_flag(const std::string& token);

/// Reads a command line the way argparse does: `--flag value`,
/// `--flag=value`, lists up to the next flag, negative numbers as values, the
/// last of a repeated flag wins. Our own code rather than a library's because
/// the table decides names, counts and types, messages must name the nearest
/// flag, and Megatron's lists (`--data-path 0.3 a 0.7 b`) need argparse's
/// rules. `ours` limits which rows take part.
ParsedFlags parse_flags(
    const std::vector<std::string>& arguments,
    Unknown unknown = Unknown::refuse,
    const std::function<bool(const Flag&)>& ours = {});

} // namespace cairn::config
