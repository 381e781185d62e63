#pragma once

#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/generate/generate.h>

namespace cairn::cli {

/// The tokenizer, the model and the way to sample that the flags of
/// `cairn generate` name, on this rank's device. Throws ConfigError, DataError,
/// CheckpointError.
generate::TextGenerator load_generator(
    const config::Config& config,
    const distributed::World& world);

} // namespace cairn::cli
