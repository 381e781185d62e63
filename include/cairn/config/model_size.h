#pragma once

#include <cairn/config/flags.h>
#include <cairn/config/model_kind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// How large the model is that flags describe. It is counted; nothing is built.

namespace cairn::config {

/// A layer as pipelines are cut: `type` is what pipeline.partition may name.
struct LayerSize {
  std::string type; ///< "embedding", "block", "norm" or "head"
  std::int64_t parameters = 0;
  std::string tie{};          ///< layers with the same name here are one
  std::int64_t experts = 0;   ///< parameters of all of its experts, of these
  std::int64_t untouched = 0; ///< … of those that a token does not go to
};

struct ModelSize {
  std::int64_t layers = 0;         ///< of T5: of the encoder
  std::int64_t decoder_layers = 0; ///< T5 only
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t sequence = 0;
  std::int64_t vocabulary = 0;
  std::int64_t padded_vocabulary = 0;
  /// Of the whole model, each once, with the vocabulary's padding.
  std::int64_t parameters = 0;
  /// That a token passes through: of the experts of a layer, those it goes to.
  std::int64_t active_parameters = 0;
  /// What one tensor parallel rank has of them, in the order of a forward pass;
  /// experts before they are shared out.
  std::vector<LayerSize> rank_layers;
};

/// The vocabulary is the one given, --vocab-size, or else that of the tokenizer
/// type's published files. Throws ConfigError for sizes that are missing, do
/// not divide or are beyond reason.
ModelSize model_size(
    ModelKind kind,
    const Flags& flags,
    std::optional<std::int64_t> vocabulary = std::nullopt);

} // namespace cairn::config
