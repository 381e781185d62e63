#pragma once

#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/generate/generate.h>
#include <cairn/models/load_model.h>
#include <cairn/models/transformer.h>
#include <cairn/text/tokenizer.h>

#include <memory>

namespace cairn::cli {

/// A model that is not made yet, and its tokenizer.
struct StoredTextModel {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  models::StoredModel stored;
};

/// Opens the tokenizer and the checkpoint that the flags of `cairn generate` or
/// `cairn evaluate` name. Throws ConfigError, DataError, CheckpointError.
StoredTextModel open_text_model(const config::Config& config);

struct LoadedTextModel {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<models::Transformer> model;
};

/// The tokenizer and the model that the flags of `cairn generate` name, on this
/// rank's device. Throws ConfigError, DataError, CheckpointError.
LoadedTextModel load_text_model(
    const config::Config& config,
    const distributed::World& world);

/// The tokenizer, the model and the way to sample that the flags of
/// `cairn generate` name, on this rank's device. Throws ConfigError, DataError,
/// CheckpointError.
generate::TextGenerator load_generator(
    const config::Config& config,
    const distributed::World& world);

/// The model alone, where texts come and go as token ids.
std::shared_ptr<models::Transformer> load_language_model(
    const config::Config& config,
    const distributed::World& world);

} // namespace cairn::cli
