#pragma once

#include "cli/generate/generated_file.h"

#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::cli {

/// Reads "5,17,3". Throws ConfigError for anything else.
std::vector<std::int64_t> parse_prompt_ids(const std::string& text);

/// Continues token ids, and writes a line of JSON for each text, to the file or
/// the screen: {"prompt_ids": …, "ids": …, "finished": …}. There are as many
/// texts as --num-samples says, and one without it. With --beam-width there is
/// one line for each beam, best first, which also has its "score".
void continue_ids(
    const config::Config& config,
    const distributed::World& world,
    const std::vector<std::int64_t>& prompt,
    GeneratedFile* file);

} // namespace cairn::cli
