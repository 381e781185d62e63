#pragma once

#include <cairn/config/training_config.h>

#include <cstdint>
#include <string>

namespace cairn::config {

/// The sequence length of a step, the first being 1, as DeepSpeed's curriculum
/// has it. The configuration must have been checked.
std::int64_t curriculum_length(
    const CurriculumConfig& curriculum,
    std::int64_t step);

/// "64 to 1024 tokens over 15000 steps (fixed_linear)"
std::string describe(const CurriculumConfig& curriculum);
/// "128 to 1024 tokens over 15000 steps in 22 of 24 layers"
std::string describe(const RandomLtdConfig& dropping);

} // namespace cairn::config
