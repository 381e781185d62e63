#pragma once

#include <cairn/config/flags.h>
#include <cairn/model/description.h>

#include <cstdint>

namespace cairn::config {

/// The model that the flags describe, for a vocabulary of so many ids, padded
/// as --make-vocab-size-divisible-by says. Throws ConfigError for sizes that
/// are missing, beyond reason or do not divide over the tensor parallel ranks.
model::ModelDescription describe_model(
    model::ModelKind kind,
    const Flags& flags,
    std::int64_t vocabulary);

/// Size of the vocabulary where the tokenizer's files are not read:
/// --vocab-size, or else that of the tokenizer type's published files. Throws
/// ConfigError if neither says it.
std::int64_t expected_vocabulary(
    model::ModelKind kind,
    const TokenizerFlags& flags);

/// Tokens of a sample, of T5 those of its encoder's text. Throws ConfigError if
/// no flag says it.
std::int64_t sequence_length(const DataFlags& flags);

} // namespace cairn::config
