#pragma once

#include <cairn/config/batch_config.h>

#include <cstdint>
#include <optional>
#include <string>

// World sizes of `elasticity` are data-parallel: they count copies of the
// model.

namespace cairn::config {

/// The batch that other world sizes have, if this one, which must be valid,
/// cannot share it and has one of its own (version 0.2).
std::optional<std::int64_t> batch_of_others(
    const ElasticityConfig& config,
    std::int64_t world_size);

/// Version 0.2 counts nodes, so it has to know how many ranks share one copy of
/// the model. Throws ConfigError if they are others than it was told.
void require_model_ranks(const ElasticityConfig& config, std::int64_t ranks);

/// "480 at 4, 8, 12, 16 data-parallel ranks"
std::string describe(const ElasticBatch& elastic);

} // namespace cairn::config
