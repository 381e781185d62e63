#pragma once

#include <string>
#include <string_view>

// What the table of keys and flags says about itself, as text.

namespace cairn::config {

// Programs train by JSON files; no command trains by flags yet, and whoever
// reads these texts must know. All that is said about it is here.
inline constexpr const char* check_note =
    "cairn::initialize trains by the JSON keys; no command trains by flags yet";
inline constexpr const char* page_note =
    "`cairn::initialize` trains by the JSON keys, and names those that it does "
    "not act\non yet. Flags are read and checked; no command trains by them "
    "yet.\n\n";

/// All JSON keys, one line each: path, type, default, support.
std::string keys_text();

/// All flags in their groups, as `--help` shows them.
std::string flags_text();

/// The help of chosen groups only, for a command that uses a few of them.
std::string flags_text(std::string_view group);

/// Everything about one key ("zero_optimization.stage", or just "stage"), one
/// section with what is in it, or one flag ("--lr"). Throws ConfigError with
/// the nearest name for an unknown one.
std::string explain(std::string_view name);

/// The reference page as Markdown.
std::string reference_page();

} // namespace cairn::config
