#pragma once

#include <cairn/checkpoint/model_description.h>
#include <cairn/config/flags.h>
#include <cairn/pretrain/pretrain.h>

#include <cstdint>

namespace cairn::pretrain {

/// The model that the flags describe, for a vocabulary of so many ids; padded
/// as --make-vocab-size-divisible-by says. Throws ConfigError for sizes that
/// are missing.
checkpoints::ModelDescription describe_model(
    Kind kind,
    const config::Flags& flags,
    std::int64_t vocabulary);

} // namespace cairn::pretrain
