#pragma once

#include <string>
#include <string_view>

// What the table of keys and flags says about itself, as text.

namespace cairn::config {

// No command trains yet, and whoever reads these texts must know. All that is
// said about it is here, to be dropped when the trainer comes.
inline constexpr const char* supported_words =
    "yes, by the trainer (not built yet)";
inline constexpr const char* check_note =
    "nothing trains yet; this checks what the trainer will read";
inline constexpr const char* page_note =
    "What is supported is read and checked; the trainer that acts on it is "
    "not\n"
    "built yet.\n\n";

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
