#pragma once

#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/generate/generate.h>
#include <cairn/models/load_model.h>
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
  generate::TextModel model;
};

/// Joins the job. Ranks that compute on CPUs talk over gloo.
distributed::World join_text_job(const config::Config& config);

// The models below are whole and on this rank's device, or with several ranks
// this rank's part of it. Rank 0 then loads it with one of the functions below,
// and the others with share_model().

/// The tokenizer and the model that the flags of `cairn generate` name. Throws
/// ConfigError, DataError, CheckpointError.
LoadedTextModel load_text_model(
    const config::Config& config,
    const distributed::World& world);

/// This rank's part of the model.
generate::SharedModel share_model(
    const config::Config& config,
    const distributed::World& world);

/// The tokenizer, the model and the way to sample.
generate::TextGenerator load_generator(
    const config::Config& config,
    const distributed::World& world);

/// The model alone, where texts come and go as token ids.
generate::TextModel load_language_model(
    const config::Config& config,
    const distributed::World& world);

} // namespace cairn::cli
