#pragma once

#include <cairn/text/tokenizer.h>

#include <CLI/CLI.hpp>

namespace cairn::cli {

/// Adds Megatron's tokenizer flags, for every command that takes a tokenizer.
/// They fill `options`, which must live until the command line has been parsed.
void add_tokenizer_flags(CLI::App& app, text::TokenizerOptions& options);

/// True when the command line had one of them, for commands that can do without
/// a tokenizer.
bool any_tokenizer_flag(const CLI::App& app);

} // namespace cairn::cli
