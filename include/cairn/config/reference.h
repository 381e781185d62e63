#pragma once

#include <cairn/config/config.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What the table of keys and flags says about itself, as text.

namespace cairn::config {

// Who acts on all of it. All that is said about it is here.
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

/// Those of them that a command takes, in their groups.
std::string flags_text(const std::function<bool(std::string_view)>& takes);

/// The values of those, given or not, as a table in Markdown.
std::string flags_table(
    const Config& config,
    const std::function<bool(std::string_view)>& takes);

/// What was given, by flag or key, with its value as JSON.
std::vector<std::pair<std::string, std::string>> given_values(
    const Config& config);
/// The same for people:
///
///   `  --hidden-size ............................ 1024`
std::string given_text(const Config& config);

/// The help of chosen groups only, for a command that uses a few of them.
std::string flags_text(std::string_view group);

/// Everything about one key ("zero_optimization.stage", or just "stage"), one
/// section with what is in it, or one flag ("--lr"). Throws ConfigError with
/// the nearest name for an unknown one.
std::string explain(std::string_view name);

/// Which of DeepSpeed's keys, or Megatron-LM's flags, work, have no effect or
/// are refused, and why: tables in Markdown for the pages docs/coming-from-*.
std::string deepspeed_support();
std::string megatron_support();

/// The reference page as Markdown.
std::string reference_page();

} // namespace cairn::config
