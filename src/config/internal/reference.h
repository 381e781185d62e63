#pragma once

#include "config/internal/actors.h"

#include <cairn/config/config.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Texts made from the tables of keys and flags.

namespace cairn::config {

// Notes on who acts on keys and flags, for `cairn config check` and the pages.
inline constexpr const char* check_note =
    "cairn::initialize trains by the JSON keys and names those that it does "
    "not act on; cairn pretrain refuses flags that it does not act on";
inline constexpr const char* page_note =
    "`cairn::initialize` trains by the JSON keys, and names those that it does "
    "not act\non. `cairn pretrain` trains by flags and keys, and refuses flags "
    "that it does not\nact on.\n\n";

/// All JSON keys, one line each: path, type, default, support.
std::string keys_text();

/// All flags in their groups, as `--help` shows them.
std::string flags_text();

/// The flags that a command acts on, in their groups.
std::string flags_text(Actor command);

/// The values of the flags that a command acts on, given or not, as a table in
/// Markdown.
std::string flags_table(const Config& config, Actor command);

/// Settings that were given, by flag or key, with their values as JSON.
std::vector<std::pair<std::string, std::string>> given_values(
    const Config& config);
/// given_values() for people to read:
///
///   `  --hidden-size ............................ 1024`
std::string given_text(const Config& config);

/// Everything about one key ("zero_optimization.stage", or just "stage"), one
/// section with its content, or one flag ("--lr"). Throws ConfigError with the
/// nearest name for an unknown one.
std::string explain(std::string_view name);

/// Tables in Markdown for the pages docs/coming-from-*: which of DeepSpeed's
/// keys, or Megatron-LM's flags, work, are not acted on yet, have no effect or
/// are refused, and why.
std::string deepspeed_support();
std::string megatron_support();

/// The reference page as Markdown.
std::string reference_page();

} // namespace cairn::config
