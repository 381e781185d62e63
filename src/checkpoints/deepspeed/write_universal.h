#pragma once

#include "checkpoints/deepspeed/write_plan.h"

#include <cairn/checkpoints/deepspeed.h>
#include <cairn/checkpoints/python_value.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace cairn::checkpoints::deepspeed {

/// Members of a parameter's files beside its tensor, by the parameter's name:
/// how model-parallel ranks cut it, and whether it is padded.
using UniversalMembers =
    std::map<std::string, std::vector<PythonValue::Member>>;

/// Writes a universal checkpoint, which DeepSpeed loads at any number of ranks
/// and any stage from 1 to 3 with `"load_universal": true` under
/// "checkpoint". The file `latest_universal` is written last. Of `layout` only
/// the type and the tag count. Throws ConfigError for states that have no place
/// in such files.
void write_universal(
    const std::filesystem::path& folder,
    const DeepSpeedState& state,
    const DeepSpeedLayout& layout,
    const ModelRank& rank = {},
    const UniversalMembers& members = {});

} // namespace cairn::checkpoints::deepspeed
